"""The nearest strategy that a framework can be told, where it cannot express the planned one.

What a release takes is in its legality rules and its table; here is what to write instead. A plan that breaks no rule of the
framework changes in nothing but switches that the framework sets by itself.
"""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.canonical import DATA_PARALLEL_FEATURES, canonical_schedule, expert_domain_devices
from cost_models.shapes.layout import layer_layout
from cost_models.shapes.strategy import (
    CpAlgo,
    Dispatcher,
    Feature,
    LayerLayout,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    RecomputeModule,
    Schedule,
)
from cost_models.shapes.workload import Workload
from frameworks.draft import Draft, breaks
from frameworks.flags import has_replicas
from frameworks.megatron_lm import rules as rules_megatron
from frameworks.mindformers import cells as mindformers_cells
from frameworks.mindformers import rules as rules_mindformers
from frameworks.mindspeed_llm import rules as rules_mindspeed
from frameworks.rule import layout_of


def megatron(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """What Megatron-LM core 0.12 can be told, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.schedule(rules_megatron.SCHEDULES, "Megatron-LM 0.12")
    precision, moe = workload.training.precision, workload.model.moe
    draft.drop(draft.features & ~rules_megatron.OFFERED, "Megatron-LM 0.12 has no such switch")
    draft.strategy = replace(draft.strategy, features=draft.features | Feature.FUSED_NORM)  # Transformer Engine always fuses them
    if workload.model.mla is not None:
        draft.strategy = replace(draft.strategy, features=draft.features & ~Feature.FUSED_ROPE)
    draft.sequence_parallel_for_experts("Megatron-LM")
    deepep = (
        workload.cluster.profile.family == "nvidia" and expert_domain_devices(workload.cluster) <= rules_megatron.DEEPEP_DOMAIN
    )
    offered = (Dispatcher.ALLGATHER, Dispatcher.ALLTOALL, *((Dispatcher.TWO_LEVEL,) if deepep else ()))
    draft.dispatcher(*offered, framework="Megatron-LM 0.12")
    s = draft.strategy
    if s.dispatcher is Dispatcher.TWO_LEVEL:
        draft.drop(Feature.MOE_PAD_TO_CAPACITY, "DeepEP takes no padding to capacity")
    if s.dispatcher is not Dispatcher.ALLTOALL or moe is None or moe.num_shared_experts == 0:
        draft.drop(Feature.MOE_SHARED_EXPERT_OVERLAP, "it needs shared experts and the alltoall dispatcher")
    if precision not in ("bf16", "fp8"):
        draft.drop(Feature.MOE_GROUPED_GEMM, "it needs bf16")
    if not s.sequence_parallel:
        draft.drop(Feature.TP_COMM_OVERLAP, "it needs sequence parallelism")
    _optimizer(draft)
    if s.pp > 1:
        draft.zero_stage(1, "Megatron-LM shards gradients and weights without a pipeline only")
    if draft.strategy.optimizer_shard_size and draft.strategy.zero_stage != 1:
        size = draft.strategy.optimizer_shard_size
        draft.set("optimizer_shard_size", size, "all data-parallel ranks", "it belongs to zero_stage 1", optimizer_shard_size=0)
    if draft.strategy.zero_stage >= 2:  # fully sharded data parallelism overlaps by itself
        overlaps = DATA_PARALLEL_FEATURES if draft.strategy.zero_stage == 3 else Feature.OVERLAP_GRAD_REDUCE
        draft.strategy = replace(
            draft.strategy, features=draft.features | (overlaps if has_replicas(workload, s) else Feature(0))
        )
    _megatron_recompute(draft)
    _megatron_layout(draft)
    s = draft.strategy
    if s.schedule is Schedule.INTERLEAVED and s.pp == 2 and Feature.OVERLAP_P2P not in s.features:
        draft.add(Feature.OVERLAP_P2P, "virtual stages over pp 2 need it")
    if s.recompute is not Recompute.NONE:
        draft.drop(Feature.CUDA_GRAPH, "it excludes recompute")
    return draft.finish()


def _optimizer(draft: Draft) -> None:
    if Feature.OVERLAP_GRAD_REDUCE not in draft.features and draft.strategy.zero_stage < 3:
        draft.drop(Feature.OVERLAP_PARAM_GATHER, "it needs overlap_grad_reduce")


def _megatron_recompute(draft: Draft) -> None:
    s = draft.strategy
    if s.recompute is Recompute.FULL:
        draft.drop_modules(s.recompute_modules, "Megatron-LM takes one granularity")
        plan = s.recompute_layers_per_stage
        if plan is not None:
            layers = max(-(-max(plan) // s.vpp), 1)
            draft.set(
                "recompute layers_per_stage",
                list(plan),
                f"{layers} layers of every virtual stage",
                "Megatron-LM takes one number for all stages",
                recompute_layers_per_stage=None,
                recompute_method=RecomputeMethod.BLOCK,
                recompute_num_layers=layers,
            )
        elif s.recompute_method is RecomputeMethod.NONE or s.recompute_num_layers < 1:
            draft.strategy = replace(s, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
        return
    _by_module(draft)
    if draft.workload.model.moe is None or Feature.MOE_GROUPED_GEMM not in draft.features:
        draft.drop_modules(RecomputeModule.MLP_ACT, "Megatron-LM recomputes activations of experts with moe_grouped_gemm only")
    if draft.workload.model.mla is None:
        draft.drop_modules(RecomputeModule.MLA_UP_PROJ, "the model has no latent attention")


def _by_module(draft: Draft) -> None:
    """Fields that belong to full recompute cleared."""
    s = replace(
        draft.strategy,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_layers_per_stage=None,
    )
    if s.recompute is Recompute.NONE or not s.recompute_modules:
        s = replace(s, recompute=Recompute.NONE, recompute_modules=RecomputeModule(0))
    draft.strategy = s


def _megatron_layout(draft: Draft) -> None:
    s, model = draft.strategy, draft.workload.model
    layout = layout_of(draft.workload, s)
    if not rules_megatron.uneven_inside(layout, model):
        return
    for vpp in (s.vpp, 1):
        buildable = even_inside(model.num_layers, s.pp, vpp)
        if buildable is not None:
            break
    else:
        return
    if vpp != s.vpp:
        why = f"{model.num_layers} layers cannot be cut into equal chunks on pp {s.pp}"
        flat = {"schedule": canonical_schedule(s.pp, vpp), "microbatch_group_size_per_vp_stage": 0}
        draft.set("vpp", s.vpp, vpp, why, vpp=vpp, features=draft.features & ~Feature.OVERLAP_P2P, **flat)
    default = layer_layout(model.num_layers, s.pp, vpp)
    draft.set(
        "layer_layout",
        "as planned",
        f"{', '.join(str(sum(row[i] for row in buildable)) for i in range(s.pp))} layers a rank",
        "Megatron-LM 0.12 needs equal middle ranks and equal chunks on a rank",
        layer_layout=None if buildable == default else buildable,
    )


def even_inside(num_layers: int, pp: int, vpp: int) -> LayerLayout | None:
    """The most even layout that Megatron 0.12 builds: equal middle ranks, equal chunks on each rank; None without one."""
    if num_layers % vpp:
        return None
    best: tuple[int, int, tuple[int, ...]] | None = None
    total = num_layers // vpp  # layers of one chunk over all ranks
    for inner in range(1, total + 1):
        ends = total - inner * max(pp - 2, 0)
        if pp < 3:
            inner = ends // pp
        if pp == 1:
            row: tuple[int, ...] = (total,)
        else:
            first, last = ends - ends // 2, ends // 2
            row = (first, *[inner] * (pp - 2), last)
        if min(row) >= 1:
            key = (max(row), max(row) - min(row), row)
            best = key if best is None or key < best else best
        if pp < 3 or ends < 2:
            break
    return tuple(best[2] for _ in range(vpp)) if best else None


def mindspeed(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """What MindSpeed-LLM can be told, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.schedule(rules_mindspeed.SCHEDULES, "MindSpeed-LLM")
    model, moe = workload.model, workload.model.moe
    draft.drop(draft.features & ~rules_mindspeed.OFFERED, "MindSpeed-LLM has no such switch")
    draft.sequence_parallel_for_experts("MindSpeed-LLM")
    draft.dispatcher(Dispatcher.ALLGATHER, Dispatcher.ALLTOALL, framework="MindSpeed-LLM")
    draft.zero_stage(1, "the Megatron back end of MindSpeed-LLM shards the optimizer alone")
    if draft.strategy.optimizer_shard_size:
        size = draft.strategy.optimizer_shard_size
        draft.set("optimizer_shard_size", size, "all data-parallel ranks", "there is no such option", optimizer_shard_size=0)
    if workload.training.precision not in ("bf16", "fp8"):
        draft.drop(Feature.MOE_GROUPED_GEMM, "it needs bf16")
    if workload.training.precision != "bf16":
        draft.drop(Feature.REUSE_FP32_PARAM, "it needs bf16")
    draft.one_fusion()
    s = draft.strategy
    if not s.sequence_parallel or moe is not None:
        draft.drop(Feature.MC2, "it needs sequence parallelism and a model without experts")
    if moe is not None:
        draft.drop(Feature.COC, "it excludes experts")
    if draft.breaks(rules_mindspeed.TP_2D):
        draft.drop(Feature.TP_2D, "it needs an even tp, and excludes sequence parallelism, fused_norm, experts and hybrid cp")
    if not model.gated_linear_unit:  # the fused kernel is that of RMSNorm
        draft.strategy = replace(draft.strategy, features=draft.features & ~Feature.FUSED_NORM)
    if s.cp > 1:
        draft.strategy = replace(draft.strategy, features=draft.features | Feature.FLASH_ATTENTION)
        if s.cp_algo is CpAlgo.ULYSSES:
            draft.strategy = replace(draft.strategy, features=draft.features & ~Feature.CP_SEND_RECV_OVERLAP)
    if s.zero_stage != 1:
        draft.drop(Feature.SWAP_OPTIMIZER, "it swaps the distributed optimizer")
    if Feature.SWAP_OPTIMIZER in draft.features:
        draft.drop(Feature.REUSE_FP32_PARAM, "it excludes swap_optimizer")
    _dualpipev(draft)
    _optimizer(draft)
    _mindspeed_experts(draft)
    _mindspeed_recompute(draft)
    return draft.finish()


def _dualpipev(draft: Draft) -> None:
    """DualPipeV with what it comes with, and without what it excludes; another schedule where that cannot be."""
    s = draft.strategy
    if s.schedule is not Schedule.DUALPIPE_V:
        return
    excluded = DATA_PARALLEL_FEATURES | rules_mindspeed.FB_EXCLUDED
    merged = replace(s, features=(s.features | Feature.MOE_COMM_OVERLAP) & ~excluded)
    if any(breaks(draft.workload, merged, rule) for rule in (rules_mindspeed.DUALPIPEV, rules_mindspeed.FB_OVERLAP)):
        draft.usual_schedule("it needs cp 1, embeddings that are not tied, ep above 1, etp 1, alltoall and moe_grouped_gemm")
        return
    draft.drop(excluded, "dualpipev excludes it")
    draft.add(Feature.MOE_COMM_OVERLAP, "dualpipev merges forwards and backwards")


def _mindspeed_experts(draft: Draft) -> None:
    moe = draft.workload.model.moe
    if moe is None:
        return
    if draft.breaks(rules_mindspeed.CAPACITY):
        why = "a capacity factor excludes allgather"
        draft.set("moe_dispatcher", "allgather", "alltoall", why, dispatcher=Dispatcher.ALLTOALL)
    if draft.breaks(rules_mindspeed.TP_EXTEND_EP) or draft.strategy.tp == 1:
        draft.drop(Feature.MOE_TP_EXTEND_EP, "it needs ep a multiple of tp, etp 1, alltoall, moe_grouped_gemm, no capacity")
    if draft.breaks(rules_mindspeed.ALLGATHER_OVERLAP):
        draft.drop(Feature.MOE_ALLGATHER_OVERLAP_COMM, "it needs the allgather dispatcher and moe_grouped_gemm")
    if draft.breaks(rules_mindspeed.ALLTOALL_OVERLAP):
        draft.drop(Feature.MOE_ALLTOALL_OVERLAP_COMM, "it needs the alltoall dispatcher and moe_grouped_gemm")
    if draft.breaks(rules_mindspeed.FB_OVERLAP) or draft.breaks(rules_mindspeed.FB_NOOP):
        draft.drop(Feature.MOE_COMM_OVERLAP, "this schedule, these switches or this layout exclude it")
    if draft.breaks(rules_megatron.SHARED_EXPERT_OVERLAP):
        draft.drop(Feature.MOE_SHARED_EXPERT_OVERLAP, "it needs shared experts and the alltoall dispatcher")
    if draft.breaks(rules_mindspeed.ZERO_MEMORY) or not draft.routed:
        draft.drop(Feature.MOE_ZERO_MEMORY, "it needs moe_alltoall_overlap_comm or moe_comm_overlap, and no full recompute")
    features = draft.features
    extends = Feature.MOE_TP_EXTEND_EP in features
    if extends:  # its dispatcher is alltoall_seq
        draft.drop(Feature.MOE_SHARED_EXPERT_OVERLAP, "it needs the alltoall dispatcher, and moe_tp_extend_ep has alltoall_seq")
    if extends or Feature.MOE_ALLGATHER_OVERLAP_COMM in features:
        draft.add(Feature.MOE_PERMUTATION_ASYNC_COMM, "moe_tp_extend_ep and moe_allgather_overlap_comm need it")
    if Feature.MOE_ALLTOALL_OVERLAP_COMM in features and moe.num_shared_experts and not extends:
        draft.add(Feature.MOE_SHARED_EXPERT_OVERLAP, "MindSpeed switches it on with moe_alltoall_overlap_comm")
    gathers = draft.routed and draft.strategy.dispatcher is Dispatcher.ALLGATHER
    dropping = moe.capacity_factor is not None and Feature.MOE_PAD_TO_CAPACITY not in features
    if gathers or dropping or (Feature.MOE_ALLTOALL_OVERLAP_COMM in features and not extends):
        draft.drop(
            Feature.MOE_PERMUTE_FUSION,
            "MindSpeed has no fused permutation with this dispatcher, overlap or capacity, although the plan is priced with it",
        )


def _mindspeed_recompute(draft: Draft) -> None:
    s = draft.strategy
    switches = rules_mindspeed.BY_SWITCH
    if s.recompute is not Recompute.FULL:
        _by_module(draft)
        if draft.strategy.recompute_modules & rules_mindspeed.BY_LAYER and draft.strategy.recompute_modules & switches:
            given = draft.strategy.recompute_modules & rules_mindspeed.BY_LAYER
            cheap = given == RecomputeModule.CORE_ATTN and Feature.FLASH_ATTENTION in draft.features
            draft.drop_modules(
                RecomputeModule.CORE_ATTN if cheap else switches,
                "MindSpeed-LLM takes modules or its switches for norms and activation functions, not both",
            )
        if draft.workload.model.mla is None:
            draft.drop_modules(RecomputeModule.MLA_UP_PROJ, "the model has no latent attention")
        return
    draft.drop_modules(s.recompute_modules & rules_mindspeed.BY_LAYER, "MindSpeed-LLM takes one granularity")
    plan = s.recompute_layers_per_stage
    if plan is not None:
        by_rank = s.schedule is Schedule.INTERLEAVED
        by_chunk = s.vpp > 1 and not by_rank
        layers = max(-(-max(plan) // (s.vpp if by_chunk else 1)), 1)
        if len(set(plan)) > 1 or s.recompute_method is RecomputeMethod.UNIFORM or by_chunk:
            why = "MindSpeed-LLM takes one number for all ranks"
            draft.set(
                "recompute layers_per_stage", list(plan), f"{layers} layers of every {'chunk' if by_chunk else 'rank'}", why
            )
        draft.strategy = replace(
            draft.strategy,
            recompute_method=RecomputeMethod.BLOCK,
            recompute_num_layers=layers,
            recompute_layers_per_stage=(layers,) * s.pp if by_rank else None,
        )
    elif s.recompute_method is RecomputeMethod.NONE or s.recompute_num_layers < 1:
        draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
    if draft.strategy.recompute_method is RecomputeMethod.UNIFORM:  # every layer is recomputed anyway
        draft.strategy = replace(draft.strategy, recompute_modules=draft.strategy.recompute_modules & ~switches)


def mindformers(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """What MindFormers 1.8 can be told, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.schedule(rules_mindformers.SCHEDULES, "MindFormers")
    size = draft.strategy.microbatch_group_size_per_vp_stage
    if size:
        why = f"in MindFormers a chunk takes pp {strategy.pp} micro batches in turn"
        draft.set("microbatch_group_size_per_vp_stage", size, strategy.pp, why, microbatch_group_size_per_vp_stage=0)
    moe = workload.model.moe
    draft.drop(draft.features & ~rules_mindformers.OFFERED, "MindFormers has no such switch")
    if not workload.software.fp32_parameters:
        draft.drop(Feature.SWAP_OPTIMIZER, "MindFormers' AdamW moves the moments alone")
    if moe is None or moe.num_shared_experts == 0:
        draft.drop(Feature.MOE_SHARED_EXPERT_OVERLAP, "it needs shared experts")
    draft.sequence_parallel_for_experts("MindFormers")
    if draft.strategy.etp > 1:
        draft.set("etp", draft.strategy.etp, 1, "MindFormers splits no expert over ranks", etp=1)
    draft.dispatcher(Dispatcher.ALLTOALL, Dispatcher.HIERARCHICAL, framework="MindFormers")
    draft.zero_stage(2, "MindFormers has no switch that gathers weights again in the backward pass")
    s = draft.strategy
    if s.optimizer_shard_size and s.zero_stage == 0:
        draft.set("optimizer_shard_size", s.optimizer_shard_size, "none", "nothing is sharded", optimizer_shard_size=0)
    if s.micro_batch_size % 2:
        draft.drop(
            Feature.FINE_GRAIN_INTERLEAVE, f"it cuts a micro batch in two halves, and micro_batch_size is {s.micro_batch_size}"
        )
    # The compiled graph overlaps sends, gradient reduction and weight gathering by itself.
    implied = Feature.OVERLAP_P2P if s.schedule is Schedule.INTERLEAVED else Feature(0)
    if has_replicas(workload, s):
        implied |= DATA_PARALLEL_FEATURES if s.zero_stage else Feature.OVERLAP_GRAD_REDUCE
    draft.strategy = replace(draft.strategy, features=draft.features | implied)
    _mindformers_recompute(draft)
    return draft.finish()


def _mindformers_recompute(draft: Draft) -> None:
    s = draft.strategy
    if s.recompute is not Recompute.FULL:
        _by_module(draft)
    unnamed = draft.strategy.recompute_modules & ~rules_mindformers.selectable(draft.workload.model)
    draft.drop_modules(unnamed, "MindFormers' select_recompute has no name for it")
    if s.recompute is not Recompute.FULL:
        return
    plan = s.recompute_layers_per_stage
    if plan is not None and s.schedule is Schedule.ZBV:
        layers = max(-(-max(plan) // s.vpp), 1)
        draft.set(
            "recompute layers_per_stage",
            list(plan),
            f"{layers} layers of every virtual stage",
            "with zero_bubble_v a number for each stage is not known to mean its two chunks",
            recompute_layers_per_stage=None,
            recompute_method=RecomputeMethod.BLOCK,
            recompute_num_layers=layers,
        )
    elif plan is not None:
        block = _block_of_plan(draft)
        draft.strategy = replace(
            draft.strategy,
            recompute_method=RecomputeMethod.BLOCK,
            recompute_num_layers=max(plan) if block is None else block,
            recompute_layers_per_stage=plan if block is None else None,
        )
    elif s.recompute_method is not RecomputeMethod.BLOCK or s.recompute_num_layers < 1:
        if s.recompute_num_layers > 1:
            why = "MindFormers recomputes layer by layer"
            draft.set("full recompute in groups of", s.recompute_num_layers, "groups of 1", why)
        draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)


def _block_of_plan(draft: Draft) -> int | None:
    """One number that says the same as a number for each stage, where the file cannot tell them apart."""
    s = draft.strategy
    plan = s.recompute_layers_per_stage
    assert plan is not None
    if Feature.SWAP_ATTENTION in s.features:
        layout = layout_of(draft.workload, s)
        return mindformers_cells.block_size(mindformers_cells.spread(plan, layout), layout)
    return plan[0] if s.vpp == 1 and len(set(plan)) == 1 else None

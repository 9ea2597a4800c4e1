"""The nearest strategy that MindSpeed-LLM can express, if it cannot express the planned one; see ``megatron_lm.nearest``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.draft import Draft, breaks
from frameworks.facts import beside
from frameworks.megatron_lm import rules_0_12 as megatron
from frameworks.mindspeed_llm import rules, sparse_rules
from frameworks.mindspeed_llm.fixed_switches import FIXED
from frameworks.mindspeed_llm.layers import TENSOR_PLAN
from frameworks.mindspeed_llm.table import BY_LAYER, HAS_METHOD, TABLE
from frameworks.physics import memory


def nearest(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """The nearest strategy that MindSpeed-LLM can express, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.offered(TABLE, rules.NAME)
    draft.sequence_parallel(megatron.SEQUENCE_PARALLEL_FOR_EXPERTS, rules.NAME)
    draft.dispatcher(TABLE.dispatchers, rules.NAME)
    draft.zero_stage(1, Sentence("the Megatron back end of MindSpeed-LLM shards the optimizer alone"))
    size = draft.strategy.optimizer_shard_size
    if size:
        draft.set(
            "optimizer_shard_size",
            size,
            Sentence("all data-parallel ranks"),
            Sentence("there is no such option"),
            optimizer_shard_size=0,
        )
    draft.drop_broken(megatron.GROUPED_GEMM_PRECISION, memory.REUSE_NEEDS_BF16)
    draft.one_fusion()
    if draft.breaks(rules.CONTEXT_PARALLEL):
        why = Sentence("kvallgather_cp_algo needs other layers")
        draft.set("cp_algo", CpAlgo.KV_ALLGATHER.label, CpAlgo.RING.label, why, cp_algo=CpAlgo.RING)
    draft.drop_broken(rules.MC2, rules.MC2_RECIPE, rules.COC, rules.TP_2D)
    if strategy.cp > 1 and strategy.cp_algo is CpAlgo.ULYSSES:
        draft.quietly(off=Feature.CP_SEND_RECV_OVERLAP)
    draft.drop_broken(sparse_rules.ONE_KEY_HEAD, rules.SWAP_OPTIMIZER, memory.SWAP_OR_REUSE)
    _dualpipev(draft)
    draft.placed(rules.PLACEMENTS, rules.NAME)
    draft.drop_broken(megatron.PARAM_GATHER)
    _experts(draft)
    draft.fix(FIXED)
    _recompute(draft)
    return draft.finish()


def _dualpipev(draft: Draft) -> None:
    """Add the switches that DualPipeV needs and drop those that it excludes, or use another schedule if it cannot run."""
    s = draft.strategy
    if not HAS_METHOD[s.schedule]:
        return
    excluded = beside(rules.RULES, Feature.MOE_COMM_OVERLAP)
    merged = replace(s, features=(s.features | Feature.MOE_COMM_OVERLAP) & ~excluded)
    if any(breaks(draft.workload, merged, rule) for rule in (rules.DUALPIPEV, rules.FB_OVERLAP)):
        draft.usual_schedule(
            Sentence("it needs cp 1, embeddings that are not tied, ep above 1, etp 1, alltoall and moe_grouped_gemm")
        )
        return
    draft.drop(excluded, Sentence("dualpipev excludes it"))
    draft.add(Feature.MOE_COMM_OVERLAP, Sentence("dualpipev merges forwards and backwards"))


def _experts(draft: Draft) -> None:
    moe = draft.workload.model.moe
    if moe is None:
        return
    if draft.breaks(rules.CAPACITY):
        why = rules.CAPACITY.sentence(draft.workload, draft.strategy)
        draft.set("moe_dispatcher", "allgather", "alltoall", why, dispatcher=Dispatcher.ALLTOALL)
    draft.drop_broken(rules.TP_EXTEND_EP)
    if draft.strategy.tp == 1:
        draft.drop(Feature.MOE_TP_EXTEND_EP, Sentence("it needs tp above 1"))
    draft.drop_broken(rules.ALLGATHER_OVERLAP, rules.ALLTOALL_OVERLAP, rules.FB_OVERLAP, rules.FB_NOOP)
    draft.drop_broken(megatron.SHARED_EXPERT_OVERLAP, rules.ZERO_MEMORY)
    if not draft.routed:
        draft.drop(Feature.MOE_ZERO_MEMORY, Sentence("tokens do not travel"))
    features = draft.features
    extends = Feature.MOE_TP_EXTEND_EP in features
    if extends:  # moe_tp_extend_ep uses the dispatcher alltoall_seq
        draft.drop(
            Feature.MOE_SHARED_EXPERT_OVERLAP, Sentence("it needs the alltoall dispatcher, and moe_tp_extend_ep has alltoall_seq")
        )
    if extends or Feature.MOE_ALLGATHER_OVERLAP_COMM in features:
        draft.add(Feature.MOE_PERMUTATION_ASYNC_COMM, Sentence("moe_tp_extend_ep and moe_allgather_overlap_comm need it"))


def _repeatable(draft: Draft) -> None:
    """Drop recompute modules whose own switches reject the model or its degrees."""
    if draft.workload.model.mla is None:
        draft.drop_modules(RecomputeModule.MLA_UP_PROJ, Sentence("the model has no latent attention"))
    up_projections = ((RecomputeModule.MLA_UP_PROJ, rule) for rule in (rules.MLA_UP_PROJ, sparse_rules.ABSORBED_UP_PROJ))
    for module, rule in ((RecomputeModule.LAYERNORM, rules.POST_NORM), *up_projections):
        if draft.breaks(rule):
            draft.drop_modules(module, rule.reason(draft.workload, draft.strategy))


def _recompute(draft: Draft) -> None:
    if draft.breaks(TENSOR_PLAN):
        draft.modules_for_tensors("MindSpeed-LLM")
    s = draft.strategy
    switches = rules.BY_SWITCH
    if s.recompute is not Recompute.FULL:
        draft.recompute_by_module()
        if draft.strategy.recompute_modules & BY_LAYER and draft.strategy.recompute_modules & switches:
            given = draft.strategy.recompute_modules & BY_LAYER
            cheap = given == RecomputeModule.CORE_ATTN and Feature.FLASH_ATTENTION in draft.features
            draft.drop_modules(
                RecomputeModule.CORE_ATTN if cheap else switches,
                Sentence("MindSpeed-LLM takes modules or its switches for norms and activation functions, not both"),
            )
        _repeatable(draft)
        return
    draft.drop_modules(s.recompute_modules & BY_LAYER, Sentence("MindSpeed-LLM takes one granularity"))
    plan = s.recompute_layers_per_stage
    if plan is not None:
        by_rank = s.schedule.rules.in_groups
        by_chunk = s.vpp > 1 and not by_rank
        layers = max(-(-max(plan) // (s.vpp if by_chunk else 1)), 1)
        if len(set(plan)) > 1 or s.recompute_method is RecomputeMethod.UNIFORM or by_chunk:
            why = Sentence("MindSpeed-LLM takes one number for all ranks")
            draft.set(
                Sentence("recompute layers_per_stage"),
                list(plan),
                Sentence("{} layers of every {}", layers, Sentence("chunk") if by_chunk else Sentence("rank")),
                why,
            )
        draft.strategy = replace(
            draft.strategy,
            recompute_method=RecomputeMethod.BLOCK,
            recompute_num_layers=layers,
            recompute_layers_per_stage=(layers,) * s.pp if by_rank else None,
        )
    elif s.recompute_method is RecomputeMethod.NONE or s.recompute_num_layers < 1:
        draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
    _repeatable(draft)
    if draft.strategy.recompute_method is RecomputeMethod.UNIFORM:  # every layer is recomputed anyway
        draft.strategy = replace(draft.strategy, recompute_modules=draft.strategy.recompute_modules & ~switches)

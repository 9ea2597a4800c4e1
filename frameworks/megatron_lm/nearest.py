"""The nearest strategy that Megatron-LM core 0.12 can be told, where it cannot express the planned one.

What the release takes is in its table and rules; here is what to write instead. A plan that breaks no rule of the framework
changes in nothing but switches that the framework sets by itself.
"""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.canonical import DATA_PARALLEL_FEATURES, canonical_schedule
from cost_models.shapes.layout import layer_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.draft import Draft
from frameworks.megatron_lm import rules
from frameworks.megatron_lm.table import TABLE
from frameworks.rule import layout_of


def nearest(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """What Megatron-LM core 0.12 can be told, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.offered(TABLE, rules.NAME)
    # Transformer Engine always fuses norms, and core 0.12 refuses the fused rotary embedding with MLA and interleaved.
    unfused = workload.model.mla is not None or workload.model.constants.rotary_interleaved
    draft.quietly(on=Feature.FUSED_NORM, off=Feature.FUSED_ROPE if unfused else Feature(0))
    draft.sequence_parallel(rules.SEQUENCE_PARALLEL_FOR_EXPERTS, "Megatron-LM")
    here = set(TABLE.dispatchers) - (set() if rules.has_deepep(workload.cluster) else {Dispatcher.TWO_LEVEL})
    draft.dispatcher(here, rules.NAME)
    if draft.breaks(rules.DEEPEP_CAPACITY):
        draft.drop(Feature.MOE_PAD_TO_CAPACITY, "DeepEP takes no padding to capacity")
    draft.drop_broken(rules.SHARED_EXPERT_OVERLAP, rules.GROUPED_GEMM_PRECISION, rules.TP_COMM_OVERLAP)
    _optimizer(draft)
    _recompute(draft)
    _layout(draft)
    if draft.breaks(rules.P2P_OVERLAP):
        draft.add(Feature.OVERLAP_P2P, "virtual stages over pp 2 need it")
    draft.drop_broken(rules.CUDA_GRAPH)
    return draft.finish()


def _optimizer(draft: Draft) -> None:
    if draft.breaks(rules.ZERO_PIPELINE):
        draft.zero_stage(1, "Megatron-LM shards gradients and weights without a pipeline only")
    if draft.strategy.zero_stage < 3:  # fully sharded data parallelism overlaps by itself
        draft.drop_broken(rules.PARAM_GATHER)
    size, stage = draft.strategy.optimizer_shard_size, draft.strategy.zero_stage
    if size and stage != 1:
        draft.set("optimizer_shard_size", size, "all data-parallel ranks", "it belongs to zero_stage 1", optimizer_shard_size=0)
    if stage >= 2:
        draft.replicated(DATA_PARALLEL_FEATURES if stage == 3 else Feature.OVERLAP_GRAD_REDUCE)


def _recompute(draft: Draft) -> None:
    s = draft.strategy
    if s.recompute is Recompute.FULL:
        draft.drop_modules(s.recompute_modules, "Megatron-LM takes one granularity")
        if s.recompute_layers_per_stage is not None:
            draft.one_number_of_recompute("Megatron-LM takes one number for all stages")
        elif s.recompute_method is RecomputeMethod.NONE or s.recompute_num_layers < 1:
            draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
        return
    draft.recompute_by_module()
    if draft.breaks(rules.ACTIVATION_RECOMPUTE):
        draft.drop_modules(RecomputeModule.MLP_ACT, "Megatron-LM recomputes activations of experts with moe_grouped_gemm only")
    if draft.workload.model.mla is None:
        draft.drop_modules(RecomputeModule.MLA_UP_PROJ, "the model has no latent attention")


def _layout(draft: Draft) -> None:
    s, model = draft.strategy, draft.workload.model
    layout = layout_of(draft.workload, s)
    if not rules.uneven_inside(layout, model):
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

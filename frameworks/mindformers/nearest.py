"""The nearest strategy that MindFormers can express, if it cannot express the planned one; see ``megatron_lm.nearest``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.draft import Draft
from frameworks.mindformers import adapters, cells, rules
from frameworks.mindformers.table import TABLE
from frameworks.rule import layout_of


def nearest(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """The nearest strategy that MindFormers 1.8 can express, and a sentence for each replaced setting."""
    draft, gathers = Draft(workload, strategy), CpAlgo.KV_ALLGATHER
    draft.offered(TABLE, rules.NAME)
    size = draft.strategy.microbatch_group_size_per_vp_stage
    if size:
        why = Sentence("in MindFormers a chunk takes pp {} micro batches in turn", strategy.pp)
        draft.set("microbatch_group_size_per_vp_stage", size, strategy.pp, why, microbatch_group_size_per_vp_stage=0)
    moe = workload.model.moe
    if draft.breaks(rules.SWAP_OPTIMIZER):
        draft.drop(Feature.SWAP_OPTIMIZER, Sentence("MindFormers' AdamW moves the moments alone"))
    if moe is None or moe.num_shared_experts == 0:
        draft.drop(Feature.MOE_SHARED_EXPERT_OVERLAP, Sentence("it needs shared experts"))
    draft.sequence_parallel(rules.SEQUENCE_PARALLEL_FOR_EXPERTS, rules.NAME)
    if draft.strategy.etp > 1:
        draft.set("etp", draft.strategy.etp, 1, Sentence("MindFormers splits no expert over ranks"), etp=1)
    draft.dispatcher(TABLE.dispatchers, rules.NAME)
    draft.placed(rules.PLACEMENTS, rules.NAME)
    if draft.breaks(rules.DEREDUNDENCY):
        why = Sentence("alltoall_deredundency works between whole nodes")
        draft.set("dispatcher", draft.strategy.dispatcher.label, "alltoall", why, dispatcher=Dispatcher.ALLTOALL)
    if draft.breaks(rules.CONTEXT_PARALLEL):
        why = Sentence("its layers take colossalai_cp or ulysses_cp")
        draft.set("cp_algo", draft.strategy.cp_algo.label, gathers.label, why, cp_algo=gathers, ulysses_degree=1)
    draft.zero_stage(2, Sentence("MindFormers has no switch that gathers weights again in the backward pass"))
    if draft.breaks(adapters.SHARDING):
        draft.zero_stage(0, Sentence("MindSpore's parallel optimizer divides frozen weights as well"))
    if draft.breaks(adapters.ULYSSES):
        why = Sentence("ulysses divides the layer that an adapter of linear_proj replaces")
        draft.set("cp_algo", "ulysses", gathers.label, why, cp_algo=gathers, ulysses_degree=1)
    s = draft.strategy
    if s.optimizer_shard_size and s.zero_stage == 0:
        draft.set("optimizer_shard_size", s.optimizer_shard_size, "none", Sentence("nothing is sharded"), optimizer_shard_size=0)
    if draft.breaks(rules.HALVES):
        draft.drop(
            Feature.FINE_GRAIN_INTERLEAVE,
            Sentence("these layers cut samples in two, and micro_batch_size is {}", s.micro_batch_size),
        )
    draft.fix(rules.FIXED)
    _recompute(draft)
    return draft.finish()


def _recompute(draft: Draft) -> None:
    if draft.breaks(rules.TENSOR_PLAN):
        draft.modules_for_tensors(rules.NAME)
    s = draft.strategy
    if s.recompute is not Recompute.FULL:
        draft.recompute_by_module()
    unnamed = draft.strategy.recompute_modules & ~rules.selectable(draft.workload.model)
    draft.drop_modules(unnamed, Sentence("MindFormers' select_recompute has no name for it"))
    if s.recompute is not Recompute.FULL:
        return
    plan = s.recompute_layers_per_stage
    if plan is not None and s.schedule.rules.is_vee:
        draft.one_number_of_recompute(Sentence("with zero_bubble_v a number for each stage is not known to mean its two chunks"))
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
            why = Sentence("MindFormers recomputes layer by layer")
            draft.set(Sentence("full recompute in groups of"), s.recompute_num_layers, Sentence("groups of 1"), why)
        draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)


def _block_of_plan(draft: Draft) -> int | None:
    """One number of recomputed layers that equals a number for each stage, if the file cannot distinguish stages."""
    s = draft.strategy
    plan = s.recompute_layers_per_stage
    assert plan is not None
    if Feature.SWAP_ATTENTION in s.features:
        layout = layout_of(draft.workload, s)
        return cells.block_size(cells.spread(plan, layout), layout)
    return plan[0] if s.vpp == 1 and len(set(plan)) == 1 else None

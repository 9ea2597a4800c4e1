"""The nearest strategy that torchtitan can express, if it cannot express the planned one; see ``megatron_lm.nearest``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.draft import Draft
from frameworks.fully_sharded import checkpoints
from frameworks.physics.memory import RECOMPUTE_BY_OPERATOR
from frameworks.rule import layout_of
from frameworks.torchtitan import rules
from frameworks.torchtitan.checkpoints import Mode, checkpoints_of, mode_of, nearest_mode
from frameworks.torchtitan.dialect import Dialect
from frameworks.torchtitan.table import BY_OPERATOR


def nearest(dialect: Dialect, workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """The nearest strategy that a release of torchtitan can express, and a sentence for each replaced setting."""
    draft, rule = Draft(workload, strategy), dialect.rule
    draft.offered(dialect.table, rules.NAME)
    size = draft.strategy.microbatch_group_size_per_vp_stage
    if size:
        why = Sentence("PyTorch's interleaved schedule takes pp {} in turn", strategy.pp)
        draft.set("microbatch_group_size_per_vp_stage", size, strategy.pp, why, microbatch_group_size_per_vp_stage=0)
    if draft.breaks(rule["sequence_parallel"]):
        draft.set("sequence_parallel", "off", "on", Sentence("the layers always have it"), sequence_parallel=True)
    draft.sequence_parallel(rule["sequence_parallel"], rules.NAME)
    _experts(draft, dialect)
    draft.dispatcher(dialect.table.dispatchers, rules.NAME)
    if draft.breaks(rule["context_parallel"]):
        why, gathers = Sentence("torchtitan gathers keys and values"), CpAlgo.KV_ALLGATHER
        draft.set("cp_algo", draft.strategy.cp_algo.label, gathers.label, why, cp_algo=gathers, ulysses_degree=1)
    draft.placed(rules.PLACEMENTS, rules.NAME)
    _sharding(draft, dialect)
    draft.drop_broken(dialect.async_tp)
    draft.fix(dialect.fixed)
    _recompute(draft, dialect)
    return draft.finish()


def _experts(draft: Draft, dialect: Dialect) -> None:
    s = draft.strategy
    if not draft.breaks(dialect.rule["expert_degrees"]):
        return
    etp = s.tp if s.ep == 1 else 1
    draft.set("etp", s.etp, etp, Sentence("torchtitan divides an expert over the ranks of tp or over none"), etp=etp)


def _sharding(draft: Draft, dialect: Dialect) -> None:
    s = draft.strategy
    if draft.breaks(dialect.rule["zero_stage"]):
        stage = 2 if s.pp > 1 else 3
        draft.set("zero_stage", s.zero_stage, stage, Sentence("torchtitan shards weights and gradients"), zero_stage=stage)
    if s.optimizer_shard_size and (
        draft.breaks(dialect.rule["shard_groups"]) or draft.breaks(dialect.rule["replicated_experts"])
    ):
        why = Sentence("torchtitan has no such groups of shards here")
        draft.set("optimizer_shard_size", s.optimizer_shard_size, Sentence("all ranks"), why, optimizer_shard_size=0)


def _recompute(draft: Draft, dialect: Dialect) -> None:
    draft.modules_for_tensors(rules.NAME)
    s, layout = draft.strategy, layout_of(draft.workload, draft.strategy)
    if s.recompute is Recompute.NONE:
        return
    if s.recompute is Recompute.SELECTIVE:
        named = RecomputeModule(sum(dialect.table.modules))
        draft.drop_modules(s.recompute_modules & ~named, Sentence("torchtitan recomputes whole layers"))
        for rule in (RECOMPUTE_BY_OPERATOR, dialect.rule.get("operators")):
            if rule is not None and draft.breaks(rule):
                draft.drop_modules(BY_OPERATOR, rule.sentence(draft.workload, draft.strategy))
        return
    mode = None if s.recompute_modules else mode_of(checkpoints(s), layout)
    if mode is None or (mode.every_nth and not dialect.some_layers):
        mode = nearest_mode(_num_recomputed(s, layout), layout) if dialect.some_layers else Mode("full")
        words = Sentence("all layers") if mode.mode == "full" else Sentence("each {}th layer of a rank", mode.every)
        draft.set("recompute", Sentence("of the plan"), words, Sentence("torchtitan has no other choice of layers"))
    found = checkpoints_of(mode, layout)
    draft.strategy = replace(
        draft.strategy,
        recompute=found.recompute,
        recompute_method=found.method,
        recompute_num_layers=found.num_layers,
        recompute_layers_per_stage=found.layers_per_stage,
        recompute_modules=RecomputeModule(0),
    )


def _num_recomputed(s: ParallelStrategy, layout: tuple[tuple[int, ...], ...]) -> int:
    """Layers of the model that are recomputed."""
    if s.recompute_layers_per_stage is not None:
        return sum(s.recompute_layers_per_stage)
    if s.recompute_method is RecomputeMethod.UNIFORM:
        return sum(map(sum, layout))
    return sum(min(s.recompute_num_layers, held) for row in layout for held in row)

"""The nearest strategy that the FSDP2 backend can express, of a plan without tensor parallelism and pipeline."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.draft import Draft
from frameworks.fully_sharded import EVERYTHING
from frameworks.mindspeed_llm_fsdp2 import rules
from frameworks.mindspeed_llm_fsdp2.table import TABLE


def unwritable(workload: Workload, s: ParallelStrategy) -> tuple[str, ...]:
    """A sentence on a plan with degrees that the backend has no ranks for."""
    if s.tp == 1 and s.pp == 1:
        return ()
    return (Sentence("Not as planned: tp {} and pp {}, of which the backend takes 1 each.", s.tp, s.pp),)


def nearest(workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """The nearest strategy, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.offered(TABLE, rules.NAME)
    draft.strategy = replace(draft.strategy, sequence_parallel=False)
    if draft.breaks(rules.EXPERTS):
        draft.set("etp", draft.strategy.etp, 1, Sentence("an expert is whole on a rank"), etp=1)
    draft.dispatcher(TABLE.dispatchers, rules.NAME)
    if draft.breaks(rules.CONTEXT_ALGORITHM):
        why = Sentence("the backend has ulysses and ring")
        draft.set("cp_algo", draft.strategy.cp_algo.label, "ring", why, cp_algo=CpAlgo.RING, ulysses_degree=1)
    draft.placed(rules.PLACEMENTS, rules.NAME)
    if draft.breaks(rules.ZERO_STAGE):
        why = Sentence("the backend shards weights and gradients")
        draft.set("zero_stage", draft.strategy.zero_stage, 3, why, zero_stage=3)
    if draft.breaks(rules.SHARDS):
        why = Sentence("the backend has no replicas of shards")
        size = draft.strategy.optimizer_shard_size
        draft.set("optimizer_shard_size", size, Sentence("all devices"), why, optimizer_shard_size=0)
    draft.fix(rules.FIXED)
    _recompute(draft)
    return draft.finish()


def _recompute(draft: Draft) -> None:
    draft.modules_for_tensors(rules.NAME)
    s = draft.strategy
    if s.recompute is Recompute.SELECTIVE:
        draft.drop_modules(s.recompute_modules, Sentence("the backend recomputes whole layers"))
    elif s.recompute is Recompute.FULL:
        plan, why = s.recompute_layers_per_stage, Sentence("the backend takes names of layers")
        grouped = s.recompute_method is RecomputeMethod.UNIFORM and s.recompute_num_layers > 1
        if plan is not None or grouped:
            layers = plan[0] if plan is not None else draft.workload.model.num_layers
            words = Sentence("{} layers", layers)
            draft.set("recompute", Sentence("of the plan"), words, why)
            s = replace(s, recompute_layers_per_stage=None, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=layers)
        if s.recompute_method is RecomputeMethod.UNIFORM or s.recompute_num_layers >= draft.workload.model.num_layers:
            s = replace(s, recompute_method=EVERYTHING.method, recompute_num_layers=EVERYTHING.num_layers)
        if s.recompute_num_layers < 1:
            s = replace(s, recompute=Recompute.NONE, recompute_method=RecomputeMethod.NONE)
        draft.strategy = replace(s, recompute_modules=RecomputeModule(0))

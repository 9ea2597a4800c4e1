"""Legal plans that no search returns first, drawn so that switches, modules and schedules that are rarely best occur too."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np

from cost_models.shapes.recompute_modules import MODULE_NAMES
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from frameworks.framework import Framework
from frameworks.legality import legal_mask
from frameworks.rule import effective_features
from search.enumeration import Rejections, chunks
from search.recompute_modes import RecomputeMode, recompute_mode
from search.space import SearchSpace, search_space

FEWEST_ROUNDS = 12
KEPT_A_ROUND = 6
ROWS_A_ROUND = 4096
MOST_FLIPPED = 4
BY_LAYER = ("none", "full", "full:2", "block:1", "block:50%")


def drawn(workload: Workload, framework: Framework, count: int, seed: int) -> list[ParallelStrategy]:
    """So many legal plans, each the one that differs most from those before it; fewer where so few were found."""
    rng = random.Random(seed)
    pool = [plan for _ in range(FEWEST_ROUNDS + count) for plan in _legal(workload, _space(workload, framework, rng), rng)]
    seen: Counter[str] = Counter()
    chosen: list[ParallelStrategy] = []
    while pool and len(chosen) < count:
        best = max(pool, key=lambda plan: sum(1 / (1 + seen[trait]) ** 2 for trait in _traits(workload, plan)))
        pool.remove(best)
        chosen.append(best)
        seen.update(_traits(workload, best))
    return chosen


def some_plan_is_legal(workload: Workload, framework: Framework) -> bool:
    """Whether the framework runs the job at all, as far as a few draws can tell."""
    rng = random.Random(0)
    rounds = (_legal(workload, _space(workload, framework, rng), rng) for _ in range(FEWEST_ROUNDS))
    return any(next(plans, None) is not None for plans in rounds)


def _space(workload: Workload, framework: Framework, rng: random.Random) -> SearchSpace:
    """A few values of each dimension, and one combination of switches."""
    usual = search_space(workload)
    offered = [feature for feature in Feature if feature in framework.table.offered]
    features = DEFAULT_FEATURES & framework.table.offered
    for feature in rng.sample(offered, rng.randint(0, min(MOST_FLIPPED, len(offered)))):
        features ^= feature
    merged = features | (Feature.MOE_COMM_OVERLAP & framework.table.offered)

    def some(values: tuple[int, ...], most: int) -> tuple[int, ...]:
        return tuple(sorted(rng.sample(values, min(most, len(values)))))

    return SearchSpace(
        tp=some(usual.tp, 2),
        pp=some(usual.pp, 2),
        vpp=some(usual.vpp, 2),
        cp=some((1, 2, 4, 8), 2),
        ep=some(usual.ep, 3),
        etp=some((1, 1, 2, 4) if workload.model.moe else (1,), 1),
        micro_batch_size=some((1, 2), 1),
        sequence_parallel=(rng.random() < 0.8,),
        cp_algo=(rng.choice((CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID)),),
        schedule=tuple(Schedule),
        microbatch_group_size_per_vp_stage=some((0, 0, 8), 1),
        dispatcher=usual.dispatcher if workload.model.moe is None else (rng.choice([each for each in Dispatcher if each]),),
        recompute=(recompute_mode(rng.choice(BY_LAYER)), _modules(framework, rng)),
        zero_stage=some((0, 1, 1, 2, 3), 1),
        features=(features,),
        dualpipev_features=(features, merged & ~Feature.OVERLAP_GRAD_REDUCE & ~Feature.OVERLAP_PARAM_GATHER),
        interleaved_features=(features,),
    )


def _modules(framework: Framework, rng: random.Random) -> RecomputeMode:
    known = [name for name, module in MODULE_NAMES.items() if module not in framework.table.unnamed_modules]
    return recompute_mode("+".join(rng.sample(known, rng.randint(1, min(3, len(known))))) if known else "none")


def _legal(workload: Workload, space: SearchSpace, rng: random.Random) -> Iterator[ParallelStrategy]:
    for chunk in chunks(workload, space, Rejections()):
        rows = range(len(chunk.batch))
        taken = chunk.batch.take(np.array(sorted(rng.sample(rows, min(ROWS_A_ROUND, len(rows)))), dtype=np.int64))
        legal = taken.take(legal_mask(workload, taken))
        for index in rng.sample(range(len(legal)), min(KEPT_A_ROUND, len(legal))):
            yield legal.row(index)


def _traits(workload: Workload, plan: ParallelStrategy) -> set[str]:
    """What decides which arguments a file has."""
    on = effective_features(workload, plan)
    traits = {f"{feature.name} {feature in on}" for feature in Feature}
    traits |= {f"recompute {module.name}" for module in type(plan.recompute_modules) if module in plan.recompute_modules}
    traits |= {f"{name} {getattr(plan, name) > 1}" for name in ("tp", "pp", "vpp", "cp", "ep", "etp")}
    traits |= {
        f"{name} {getattr(plan, name)}" for name in ("zero_stage", "sequence_parallel", "microbatch_group_size_per_vp_stage")
    }
    choices = (plan.schedule, plan.dispatcher, plan.cp_algo, plan.recompute, plan.recompute_method)
    return traits | {f"{type(choice).__name__} {choice.name}" for choice in choices}

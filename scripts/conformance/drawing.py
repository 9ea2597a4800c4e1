"""Legal plans drawn at random, so that switches, modules and schedules that are rarely best occur too."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cost_models.shapes.canonical import canonical, canonical_schedule
from cost_models.shapes.recompute_modules import MODULE_NAMES
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from frameworks.framework import Framework
from frameworks.legality import legal_mask, violations
from frameworks.placements import ranks_are_alike
from frameworks.registry import placements_of
from frameworks.rule import effective_features, layout_of
from search.space.enumeration import Rejections, chunks
from search.space.recompute_modes import RecomputeMode, recompute_mode
from search.space.search_space import SearchSpace, search_space

FEWEST_ROUNDS = 12
KEPT_A_ROUND = 6
ROWS_A_ROUND = 4096
MOST_FLIPPED = 4
DRAWS_OF_LAYERS = 8
BY_LAYER = ("none", "full", "full:2", "block:1", "block:50%")


def drawn(workload: Workload, framework: Framework, count: int, seed: int) -> list[ParallelStrategy]:
    """Up to that many legal plans; each is the drawn one that differs most from those before it."""
    rng = random.Random(seed)
    pool = [plan for _ in range(FEWEST_ROUNDS + count) for plan in _legal(workload, _space(workload, framework, rng), rng)]
    pool += [placed for plan in pool if (placed := _placed(workload, framework, plan, rng)) is not None]
    seen: Counter[str] = Counter()
    chosen: list[ParallelStrategy] = []
    while pool and len(chosen) < count:
        best = max(pool, key=lambda plan: sum(1 / (1 + seen[trait]) ** 2 for trait in _traits(workload, plan)))
        pool.remove(best)
        chosen.append(best)
        seen.update(_traits(workload, best))
    return chosen


def some_plan_is_legal(workload: Workload, framework: Framework) -> bool:
    """Whether a few draws contain a legal plan."""
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
        cp_algo=(rng.choice(usual.cp_algo),),
        schedule=tuple(Schedule),
        microbatch_group_size_per_vp_stage=some((0, 0, 8), 1),
        dispatcher=usual.dispatcher if workload.model.moe is None else (rng.choice([each for each in Dispatcher if each]),),
        recompute=(recompute_mode(rng.choice(BY_LAYER)), _modules(framework, rng)),
        zero_stage=some((0, 1, 1, 2, 3) if workload.shares_optimizer else (0,), 1),
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


def _placed(workload: Workload, framework: Framework, plan: ParallelStrategy, rng: random.Random) -> ParallelStrategy | None:
    """The plan with another placement of layers and MTP modules, or None if no draw gives one that the target takes."""
    model, pp, vpp = workload.model, plan.pp, plan.vpp
    if plan.schedule in (
        Schedule.ONE_F_ONE_B,
        Schedule.INTERLEAVED,
    ):  # the default layout may be one that the target cannot express
        vpp = rng.choice((vpp, 2, 4, 8))
        plan = replace(plan, vpp=vpp, schedule=canonical_schedule(pp, vpp), features=plan.features | Feature.OVERLAP_P2P)
    merged = Feature.MOE_COMM_OVERLAP in plan.features and plan.schedule is Schedule.INTERLEAVED
    placements = placements_of(framework.target.label, merged_chunks=merged)
    shapes = list(placements.shapes(model.num_layers, pp, vpp)) if placements.even else []
    shapes = [each for each in shapes if rng.random() < 0.5 and not ranks_are_alike(each)] or shapes
    for _ in range(DRAWS_OF_LAYERS if pp > 1 else 0):
        counts = [layers for row in layout_of(workload, plan) for layers in row]
        empty = rng.choice((0, 0, 1, 2)) if pp * vpp > 2 else 0
        for stage in (*range(pp * vpp - empty, pp * vpp), *rng.choices(range(pp * vpp), k=rng.randint(0, 3))):
            moved = rng.randint(1, counts[stage]) if stage < pp * vpp - empty and counts[stage] else counts[stage]
            counts[stage] -= moved
            counts[rng.randrange(pp * vpp - empty)] += moved
        layout = rng.choice(shapes) if shapes else tuple(tuple(counts[c * pp : (c + 1) * pp]) for c in range(vpp))
        most = min(empty, placements.most_mtp_before_head(pp, vpp)) if model.mtp_num_layers and not shapes else 0
        placed = replace(plan, layer_layout=layout, mtp_before_head=rng.randint(0, most))
        if not violations(workload, placed):
            return canonical(workload, placed)
    return None


def _traits(workload: Workload, plan: ParallelStrategy) -> set[str]:
    """Traits of a plan that decide which arguments its file has."""
    on = effective_features(workload, plan)
    traits = {f"{feature.name} {feature in on}" for feature in Feature}
    traits |= {f"recompute {module.name}" for module in type(plan.recompute_modules) if module in plan.recompute_modules}
    traits |= {f"{name} {getattr(plan, name) > 1}" for name in ("tp", "pp", "vpp", "cp", "ep", "etp")}
    traits |= {
        f"{name} {getattr(plan, name)}" for name in ("zero_stage", "sequence_parallel", "microbatch_group_size_per_vp_stage")
    }
    counts = [layers for row in layout_of(workload, plan) for layers in row]
    traits |= {f"placed {plan.layer_layout is not None}", f"idle {min(counts) == 0}", f"mtp {plan.mtp_before_head > 0}"}
    choices = (plan.schedule, plan.dispatcher, plan.cp_algo, plan.recompute, plan.recompute_method)
    return traits | {f"{type(choice).__name__} {choice.name}" for choice in choices}

"""Every plan of a space, with no bound and no shortcut: the forms of all strategies, each placed and simulated.

Only the values of the space come from the search, and where the caller says so the placements. The product of the dimensions, the
canonical form, the rules of the target and the combinations of switches that save memory are worked out here. Layers are priced,
played and measured by the cost model, which both sides share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical, layers_per_chunk, schedules_of
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import SWITCHES, Feature, InSearch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from frameworks.accepted_switches import taken
from frameworks.legality import rules_for
from search.space.search_space import SearchSpace
from tests.oracle.placements import layouts

AT_ONCE = 4_000  # plans that are simulated together
STRUCTURE = ("tp", "pp", "cp", "ep", "vpp", "schedule")
Structure = tuple[int, ...]
Placements = Callable[[Sequence[ParallelStrategy]], Sequence[Sequence[ParallelStrategy]]]


@dataclass(frozen=True)
class EveryPlan:
    """All that fits: how many forms and plans there are, and of each structure the fastest plan with its seconds."""

    num_forms: int
    num_legal: int
    num_fitting: int
    best: dict[Structure, tuple[float, ParallelStrategy]]

    def places(self, number: int) -> list[tuple[float, Structure]]:
        """The fastest structures, with the seconds of their fastest plans."""
        return sorted((time_s, structure) for structure, (time_s, _) in self.best.items())[:number]


def structure_of(strategy: ParallelStrategy) -> Structure:
    return tuple(int(getattr(strategy, name)) for name in STRUCTURE)


def every_plan(workload: Workload, space: SearchSpace, constants: Constants, placements: Placements) -> EveryPlan:
    """Simulate every form under all placements that ``placements`` gives it and that the target takes."""
    forms = legal_forms(workload, space)
    best: dict[Structure, tuple[float, ParallelStrategy]] = {}
    num_legal = num_fitting = 0
    for first in range(0, len(forms), AT_ONCE):
        some = forms[first : first + AT_ONCE]
        for part in _in_parts([plan for placed in placements(some) for plan in placed]):
            legal = legal_of(workload, part, reads_placement=True)
            num_legal += len(legal)
            if not legal:
                continue
            played = simulate(workload, StrategyBatch.of(legal), constants)
            for row in np.flatnonzero(played.fits).tolist():
                time_s, structure = float(played.step_time_s[row]), structure_of(legal[row])
                num_fitting += 1
                if structure not in best or time_s < best[structure][0]:
                    best[structure] = time_s, legal[row]
    return EveryPlan(len(forms), num_legal, num_fitting, best)


def legal_forms(workload: Workload, space: SearchSpace) -> list[ParallelStrategy]:
    """Every strategy that the target takes, and its leaner forms, before layers are placed."""
    rows = list(dict.fromkeys(strategies(workload, space)))
    rows = legal_of(workload, [taken(workload, row, space.wanted) for row in rows], reads_placement=False)
    every = dict.fromkeys([*rows, *(form for row in rows for form in leaner_forms(workload, row, space.leaner))])
    return legal_of(workload, list(every), reads_placement=False)


def strategies(workload: Workload, space: SearchSpace) -> Iterator[ParallelStrategy]:
    """The product of all dimensions but placement, in canonical form; some of it twice, and some of it illegal."""
    model, devices = workload.model, workload.cluster.num_devices
    for tp, pp, cp in product(space.tp, space.pp, space.cp):
        if devices % (tp * pp * cp):
            continue
        replicas = devices // (tp * pp * cp)
        for vpp, micro_batch, ep, etp in product(space.vpp, space.micro_batch_size, space.ep, space.etp):
            if workload.training.global_batch_size % (replicas * micro_batch):
                continue
            layers = layers_per_chunk(model, pp, vpp)
            for schedule in (each for each in schedules_of(pp, vpp) if each in space.schedule):
                options = product(
                    space.microbatch_group_size_per_vp_stage, space.sequence_parallel, space.zero_stage, space.dispatcher,
                    space.recompute, _cp_algorithms(space, cp), space.features_with(schedule),
                )  # fmt: skip
                for group, sequence_parallel, zero, dispatcher, mode, (algorithm, ulysses), features in options:
                    strategy = ParallelStrategy(
                        tp=tp, pp=pp, cp=cp, ep=ep, etp=etp, vpp=vpp, micro_batch_size=micro_batch, schedule=schedule,
                        sequence_parallel=sequence_parallel, cp_algo=algorithm, ulysses_degree=ulysses, zero_stage=zero,
                        microbatch_group_size_per_vp_stage=group, dispatcher=dispatcher, features=features,
                        recompute=mode.granularity, recompute_method=mode.method,
                        recompute_num_layers=mode.layers(layers), recompute_modules=mode.modules,
                    )  # fmt: skip
                    yield canonical(workload, strategy)


def leaner_forms(workload: Workload, row: ParallelStrategy, switches: Feature) -> Iterator[ParallelStrategy]:
    """The strategy with every combination of the switches turned to the side that saves memory, where each of them changes it.

    Of those that replace the same, one is on.
    """
    among = [feature for feature in SWITCHES if feature in switches and feature not in _lean_side(row.features, feature)]
    for number in range(1, len(among) + 1):
        for chosen in combinations(among, number):
            features = row.features
            for feature in chosen:
                features ^= feature
            turned_on = Feature(sum(chosen)) & features
            if _replace_the_same(features, turned_on):
                continue
            if canonical(workload, replace(row, features=row.features | Feature(sum(chosen)))).features & Feature(
                sum(chosen)
            ) == Feature(sum(chosen)):
                yield replace(row, features=features)


def _lean_side(features: Feature, feature: Feature) -> Feature:
    """The switch itself where it is on its leaner side already."""
    wants_on = SWITCHES[feature].in_search is InSearch.LEAN_ON
    return feature if (feature in features) == wants_on else Feature(0)


def _replace_the_same(features: Feature, turned_on: Feature) -> bool:
    kinds = [SWITCHES[feature].one_of for feature in SWITCHES if feature in features and SWITCHES[feature].one_of]
    return any(kinds.count(SWITCHES[feature].one_of) > 1 for feature in SWITCHES if feature in turned_on)


def _cp_algorithms(space: SearchSpace, cp: int) -> Iterator[tuple[CpAlgo, int]]:
    for algorithm in space.cp_algo:
        if algorithm is CpAlgo.HYBRID and cp > 1:
            yield from ((algorithm, degree) for degree in range(2, cp) if cp % degree == 0)
        else:
            yield algorithm, 1


def legal_of(workload: Workload, rows: Sequence[ParallelStrategy], *, reads_placement: bool | None) -> list[ParallelStrategy]:
    """Rows that break no rule of the target that reads the placement, or does not; none for all rules."""
    if not rows:
        return []
    batch = StrategyBatch.of(rows)
    legal = np.ones(len(batch), dtype=np.bool_)
    for rule in rules_for(workload.software.target):
        if reads_placement is None or rule.reads_placement == reads_placement:
            legal &= ~rule.violates(workload, batch)
    return [rows[row] for row in np.flatnonzero(legal)]


def every_placement(workload: Workload) -> Placements:
    """All contiguous placements of a model of few layers; its prediction layers run beside the head."""
    layers = workload.model.num_layers
    return lambda rows: [[replace(row, layer_layout=layout) for layout in layouts(layers, row.pp, row.vpp)] for row in rows]


def _in_parts(plans: list[ParallelStrategy]) -> Iterator[list[ParallelStrategy]]:
    yield from (plans[first : first + AT_ONCE] for first in range(0, len(plans), AT_ONCE))

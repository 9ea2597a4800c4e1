"""Random plans of a full-size job beside the list that a search proves.

Half of the plans are drawn from the whole space, half are neighbours of listed plans: a few dimensions are drawn anew. Each may
have any leaner form and any placement that keeps the order of the layers. Every legal plan is simulated. None that fits may be
faster than its own structure in the list, or than the last listed structure, by more than the gain for which the search stops
to move single layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np

from app.catalogue.models.presets import model_preset
from cost_models.constants import Constants
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from cost_models.simulation.step_times import simulate
from frameworks.accepted_switches import taken
from hardware_profiles.catalogue import profile
from search.exhaustive.lattice_search import LatticeSearch
from search.session.request import SearchRequest
from search.space.search_space import SearchSpace
from tests.oracle.all_plans import leaner_forms, legal_of, strategies, structure_of

AT_ONCE = 4_000  # plans that are simulated together
LEAST_GAIN = 5e-4  # fraction of a step below which the search moves no single layer
MOST_MOVES = 3  # layers that change their virtual stage
DRAWN = ("tp", "pp", "cp", "ep", "etp", "vpp", "micro_batch_size", "schedule", "dispatcher", "recompute", "cp_algo", "zero_stage")


class Faster(NamedTuple):
    """A sampled plan that is faster than the list allows; ``limit_s`` is what the list says."""

    strategy: ParallelStrategy
    time_s: float
    limit_s: float


class Sample(NamedTuple):
    """How many plans were legal and simulated, how many fit, and those that refute the list, slowest relative limit first."""

    num_legal: int
    num_fitting: int
    faster: tuple[Faster, ...]


def job(model: str, hardware: str, devices: int, batch: int, target: str, *, seq_length: int = 4096) -> Workload:
    """A full-size job for a target."""
    return Workload(
        model=model_preset(model).model,
        training=TrainingJob(seq_length=seq_length, global_batch_size=batch),
        cluster=Cluster(profile(hardware), devices),
        software=Software(target.partition("@")[0], target=target),
    )


def proved_list(workload: Workload, space: SearchSpace, constants: Constants, places: int) -> LatticeSearch:
    """The finished search."""
    lattice = LatticeSearch(SearchRequest(workload, space, constants, top=places))
    while lattice.advance():
        pass
    return lattice


def sampled(
    workload: Workload, space: SearchSpace, constants: Constants, lattice: LatticeSearch, *, number: int, seed: int = 0
) -> Sample:
    """Simulate ``number`` random legal plans and compare each with the list of a finished search."""
    listed = {
        tuple(np.frombuffer(structure, np.int64).tolist()): time_s
        for structure, time_s in lattice.state.candidates.structure_s.items()
    }
    ranked = lattice.ranked()
    near = [each.strategy for each in ranked]
    num_places = lattice.request.top
    for each in ranked:  # after single layers have moved
        listed[structure_of(each.strategy)] = min(each.step_time_s, listed.get(structure_of(each.strategy), each.step_time_s))
    last_s = sorted(listed.values())[num_places - 1] if len(listed) >= num_places else float("inf")
    plans, num_legal, num_fitting = _random_plans(workload, space, near, Random(seed)), 0, 0
    found: list[Faster] = []
    while num_legal < number:
        legal = legal_of(workload, [next(plans) for _ in range(AT_ONCE)], reads_placement=None)[: number - num_legal]
        if not legal:
            continue
        num_legal += len(legal)
        played = simulate(workload, StrategyBatch.of(legal), constants)
        for row in np.flatnonzero(played.fits).tolist():
            num_fitting += 1
            time_s = float(played.step_time_s[row])
            limit_s = min(listed.get(structure_of(legal[row]), last_s), last_s)
            if time_s < limit_s * (1.0 - LEAST_GAIN):
                found.append(Faster(legal[row], time_s, limit_s))
    return Sample(num_legal, num_fitting, tuple(sorted(found, key=lambda each: each.time_s / each.limit_s)))


def _random_plans(
    workload: Workload, space: SearchSpace, near: Sequence[ParallelStrategy], some: Random
) -> Iterator[ParallelStrategy]:
    """Plans without end; many are illegal."""
    while True:
        one = _one_of(space, some, _kept(space, some.choice(near), some) if near and some.random() < 0.5 else {})
        for plain in _few(list(strategies(workload, one)), some):
            plain = taken(workload, plain, space.wanted)
            forms = [plain, *leaner_forms(workload, plain, space.leaner)]
            for form in _few(forms, some):
                yield form
                yield replace(form, layer_layout=_moved(default_layout(workload.model, form.pp, form.vpp, form.schedule), some))


def _kept(space: SearchSpace, plan: ParallelStrategy, some: Random) -> dict[str, object]:
    """The values of a listed plan in the dimensions that are not drawn anew."""
    anew = set(some.sample(DRAWN, some.randint(1, 3)))
    names = [name for name in DRAWN if name not in anew | {"recompute"}]
    return {name: getattr(plan, name) for name in names if getattr(plan, name) in getattr(space, name)}


def _one_of(space: SearchSpace, some: Random, kept: dict[str, object]) -> SearchSpace:
    """A space of one value for each dimension; all combinations of switches stay."""
    return replace(space, **{name: (kept.get(name, some.choice(getattr(space, name))),) for name in DRAWN})


def _few(every: list[ParallelStrategy], some: Random, number: int = 4) -> list[ParallelStrategy]:
    return some.sample(every, min(number, len(every)))


def _moved(layout: LayerLayout, some: Random) -> LayerLayout:
    """The layout after some layers have moved to other virtual stages."""
    counts = [list(row) for row in layout]
    places = [(chunk, stage) for chunk, row in enumerate(counts) for stage in range(len(row))]
    for _ in range(some.randint(1, MOST_MOVES)):
        (here, i), (there, j) = some.choice(places), some.choice(places)
        number = some.randint(1, max(1, counts[here][i]))
        if counts[here][i] > number:
            counts[here][i] -= number
            counts[there][j] += number
    return tuple(map(tuple, counts))

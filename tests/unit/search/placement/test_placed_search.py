"""What a search says of a small job, against every placement of every strategy, priced one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from frameworks.legality import legal_mask
from frameworks.registry import placements_of
from frameworks.rule import layout_of
from scripts.checks.layer_moves import checked
from search.exhaustive.lattice_search import LatticeSearch, search
from search.exhaustive.lattice_state import LatticeState
from search.exhaustive.open_candidates import OpenCandidates
from search.objectives.objective import Criterion
from search.placement.placer import Placer
from search.plans.estimator import Estimator
from search.ranking.leaderboard import Leaderboard
from search.results.search_result import SearchResult
from search.space.enumeration import Rejections, chunks, layout_rules, option_rules
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from tests.oracle.placements import layouts
from tests.search_workloads import DENSE, MOE, request, workload

CONSTANTS = prior_constants("ascend")
HEAVY_HEAD = replace(DENSE, name="heavy-head", num_layers=8, vocab_size=128000)
LIGHT_START = replace(MOE, name="light-start", num_layers=8, vocab_size=128000)
PREDICTING = replace(LIGHT_START, name="predicting", mtp_num_layers=1)
LIMITS = SearchLimits(
    tp=(1, 2), pp=(1, 2, 4), vpp=(1, 2), cp=(1,), etp=(1,), micro_batch_size=(1,), recompute=(recompute_mode("none"),)
)
TARGETS = ("megatron-lm@0.12", "megatron-lm@0.19", "mindspeed-llm", "mindformers")


def job(model: ModelShape, target: str = "any") -> Workload:
    return workload(model, num_devices=8, global_batch_size=32, target=target)


def run(made: Workload, limits: SearchLimits = LIMITS, simulator: Estimator = simulate, **options: Any) -> SearchResult:
    return search(request(made, search_space(made, limits), CONSTANTS, **options), simulator=simulator)


def rows(made: Workload, limits: SearchLimits) -> list[ParallelStrategy]:
    """The lattice without placements."""
    found = []
    for chunk in chunks(made, search_space(made, limits), Rejections()):
        legal = np.ones(len(chunk.batch), dtype=np.bool_)
        for rule in (*layout_rules(made), *option_rules(made)):
            legal &= ~rule.violates(made, chunk.batch)
        found += [chunk.batch.row(int(row)) for row in np.flatnonzero(legal)]
    return found


def placed(made: Workload, strategy: ParallelStrategy) -> Iterator[ParallelStrategy]:
    modules = range(strategy.pp * strategy.vpp) if made.model.mtp_num_layers else (0,)
    for layout in layouts(made.model.num_layers, strategy.pp, strategy.vpp):
        for before in modules:
            yield replace(strategy, layer_layout=layout, mtp_before_head=before)


def least_closed_form_s(made: Workload, strategies: Iterable[ParallelStrategy]) -> float:
    """Of strategies under every placement that is legal and fits."""
    least = np.inf
    for strategy in strategies:
        batch = StrategyBatch.of(list(placed(made, strategy)))
        legal = batch.take(legal_mask(made, batch))
        if len(legal):
            found = estimate(made, legal, CONSTANTS)
            least = min(least, float(np.where(found.fits, found.step_time_s, np.inf).min()))
    return least


@pytest.mark.parametrize("model", [HEAVY_HEAD, LIGHT_START, PREDICTING], ids=lambda model: model.name)
def test_no_strategy_of_the_lattice_is_faster_under_any_placement(model: ModelShape) -> None:
    made, limits = job(model), replace(LIMITS, vpp=(1,), pp=(2, 4))
    plans = run(made, limits, simulator=estimate).plans
    least_s = least_closed_form_s(made, rows(made, limits))
    assert min(plan.estimate["step_time_s"] for plan in plans) == pytest.approx(least_s, rel=5e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_gets_placements_that_it_can_express(target: str) -> None:
    made = job(PREDICTING, target)
    found = run(made)
    assert found.plans
    for plan in found.plans:
        one = plan.parallel
        assert legal_mask(made, StrategyBatch.of([one])).all()
        assert placements_of(target).expressible(layout_of(made, one), one.mtp_before_head, made.model)


@pytest.mark.parametrize("model", [HEAVY_HEAD, PREDICTING], ids=lambda model: model.name)
def test_no_move_of_a_layer_between_neighbours_makes_a_plan_faster(model: ModelShape) -> None:
    made = job(model)
    plans = run(made).plans[:10]
    assert any(plan.parallel.layer_layout is not None for plan in plans)
    assert any(plan.parallel.schedule is Schedule.INTERLEAVED for plan in plans)
    for plan in plans:
        assert checked(made, plan.parallel, CONSTANTS, neighbours=True).gain_fraction <= 1e-3


def test_plans_are_as_fast_as_they_are_said_to_be() -> None:
    made = job(PREDICTING)
    for plan in run(made).plans[:5]:
        played = simulate(made, StrategyBatch.of([plan.parallel]), CONSTANTS)
        assert plan.estimate["step_time_s"] == pytest.approx(float(played.step_time_s[0]), rel=1e-9)
        assert played.fits[0]


def test_a_time_to_beat_that_is_known_from_the_start_leaves_the_list_as_it_is() -> None:
    model = replace(
        MOE, num_layers=8, hidden_size=4096, num_attention_heads=32, num_query_groups=32, vocab_size=512_000, name="crowded"
    )
    made = workload(model, num_devices=16, global_batch_size=32)
    limits = replace(LIMITS, pp=(4, 8), ep=(2, 4), recompute=(recompute_mode("none"), recompute_mode("full")), dispatcher=None)

    def best_s(to_beat_s: float) -> list[float]:
        state = LatticeState(Leaderboard(Criterion.STEP_TIME, 3), candidates=OpenCandidates(3, to_beat_s=to_beat_s))
        lattice = LatticeSearch(request(made, search_space(made, limits), CONSTANTS, top=3), state=state)
        while lattice.advance():
            pass
        return sorted(lattice.state.candidates.structure_s.values())[:3]

    without = best_s(float("inf"))
    assert best_s(float(np.nextafter(without[-1], np.inf))) == without


def test_where_layers_lie_does_not_depend_on_what_else_is_priced() -> None:
    made = job(HEAVY_HEAD)
    strategies = [
        ParallelStrategy(tp=tp, pp=4, dp=2 // tp, vpp=2, micro_batch_size=size, schedule=Schedule.INTERLEAVED)
        for tp in (1, 2)
        for size in (1, 2, 4)
    ]
    placer = Placer(made)
    alone = [Placer(made).best(CONSTANTS, [strategy])[0] for strategy in strategies]
    assert placer.best(CONSTANTS, strategies) == alone
    assert placer.best(CONSTANTS, strategies[::-1]) == alone[::-1]


def test_a_search_that_is_saved_and_continued_places_the_same() -> None:
    made = job(PREDICTING)
    space = search_space(made, LIMITS)
    whole = LatticeSearch(request(made, space, CONSTANTS))
    while whole.advance():
        pass
    part = LatticeSearch(whole.request)
    while part.advance():
        saved = json.loads(json.dumps(part.checkpoint()))
        part = LatticeSearch(whole.request, state=LatticeState.from_mapping(saved, Criterion.STEP_TIME, 20))
    expected, found = whole.result(), part.result()
    assert [plan.parallel for plan in found.plans] == [plan.parallel for plan in expected.plans]
    assert found.counts == expected.counts
    assert any(plan.parallel.layer_layout is not None for plan in found.plans)

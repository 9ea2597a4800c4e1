"""Every place of an answer against every strategy of its lattice, each played alone and event by event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from search.exhaustive.lattice_search import LatticeSearch
from search.placement.placer import Placer
from search.ranking.structures import structures
from search.session.request import SearchRequest
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from tests.oracle.all_plans import legal_forms
from tests.oracle.placements import layouts
from tests.oracle.steps import step_s
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
FEW_LAYERS = replace(DENSE, name="few-layers", num_layers=8, vocab_size=128000)
EXPERTS = replace(MOE, name="experts", num_layers=8)
CROWDED = replace(MOE, name="crowded", num_layers=8, hidden_size=6144, num_attention_heads=48, num_query_groups=48)
MODES = [recompute_mode(name) for name in ("none", "full", "block:50%", "layernorm+mlp_act")]


def some(values: list, most: int) -> st.SearchStrategy[tuple]:  # type: ignore[type-arg]
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True).map(tuple)


LIMITS = st.builds(
    SearchLimits,
    tp=some([1, 2, 4, 8], 2),
    pp=some([1, 2, 4], 2),
    vpp=some([1, 2, 3], 2),
    cp=some([1, 2], 1),
    etp=some([1, 2], 2),
    ep=some([1, 2, 4, 8], 2),
    cp_algo=some([CpAlgo.ULYSSES, CpAlgo.RING], 1),
    dispatcher=some([Dispatcher.ALLTOALL, Dispatcher.ALLGATHER], 1),
    micro_batch_size=some([1, 2], 1),
    recompute=some(MODES, 2),
)


def strategies(job: Workload, limits: SearchLimits, *, leaner: bool = True) -> list[ParallelStrategy]:
    """Every strategy of the lattice in all of its forms, where its pace is best and it fits."""
    placer, space = Placer(job), search_space(job, limits)
    forms = legal_forms(job, space if leaner else replace(space, leaner=Feature(0)))
    return [placed for form in placer.placed_by_pace(CONSTANTS, forms) for placed in form]


@settings(max_examples=8)
@given(
    st.sampled_from([FEW_LAYERS, EXPERTS, CROWDED]).flatmap(
        lambda model: st.builds(workload, st.just(model), num_devices=st.just(8), global_batch_size=st.sampled_from([8, 12]))
    ),
    LIMITS,
    st.integers(1, 6),
)
def test_every_place_is_the_best_of_what_is_left(job: Workload, limits: SearchLimits, top: int) -> None:
    if job.model.moe is None:
        limits = replace(limits, ep=None, etp=None, dispatcher=None)
    lattice = LatticeSearch(SearchRequest(job, search_space(job, limits), CONSTANTS, top=top))
    while lattice.advance():
        pass
    rows = strategies(job, limits)
    best_s: dict[bytes, float] = {}
    for structure, row in zip(structures(StrategyBatch.of(rows)) if rows else [], rows, strict=True):
        best_s[structure] = min(step_s(job, row, CONSTANTS), best_s.get(structure, np.inf))
    expected = sorted(best_s.values())[:top]
    found = sorted(lattice.state.candidates.structure_s.values())[: len(expected)]
    assert found == pytest.approx(expected, rel=1e-9)
    result = lattice.result()
    assert result.proof.places == len(result.plans) == len(expected)
    # Moving single layers only makes plans faster.
    for plan_s, place_s in zip(sorted(plan.estimate["step_time_s"] for plan in result.plans), expected, strict=True):
        assert plan_s <= place_s * (1.0 + 1e-9)


@pytest.mark.parametrize("model", [FEW_LAYERS, EXPERTS], ids=lambda model: model.name)
def test_every_place_of_1f1b_is_about_as_fast_as_under_the_best_of_all_placements(model) -> None:  # type: ignore[no-untyped-def]
    job = workload(model, num_devices=8, global_batch_size=16)
    limits = SearchLimits(
        tp=(1, 2), pp=(2, 4), vpp=(1,), cp=(1,), etp=(1,), micro_batch_size=(1,), recompute=(recompute_mode("none"),),
        dispatcher=(Dispatcher.ALLTOALL,) if model.moe else None,
    )  # fmt: skip
    best_s: dict[bytes, float] = {}
    for row in strategies(job, limits, leaner=False):  # all fit
        every = [replace(row, layer_layout=layout) for layout in layouts(model.num_layers, row.pp, row.vpp)]
        played = simulate(job, StrategyBatch.of(every), CONSTANTS)
        (structure,) = structures(StrategyBatch.of([row]))
        best_s[structure] = min(float(played.step_time_s[played.fits].min()), best_s.get(structure, np.inf))
    lattice = LatticeSearch(SearchRequest(job, search_space(job, limits), CONSTANTS, top=6))
    while lattice.advance():
        pass
    times_s = sorted(plan.estimate["step_time_s"] for plan in lattice.result().plans)
    assert len(times_s) > 2
    for plan_s, least_s in zip(times_s, sorted(best_s.values()), strict=False):
        assert least_s * (1.0 - 1e-9) <= plan_s <= least_s * 1.02

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.effective_switches import possible
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature, InSearch, treated
from cost_models.shapes.workload import MemoryRoom, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate, estimate_priced
from cost_models.step.priced_groups import PricedBatch
from cost_models.step.result import Estimate
from frameworks.legality import legal_mask
from frameworks.registry import cautions_of
from search.errors import SearchError
from search.exhaustive import lattice_search
from search.exhaustive.lattice_search import LatticeSearch, search
from search.heartbeat import heartbeats_to
from search.results.search_result import SearchResult
from search.session.progress import Progress
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import memory_saving_forms
from search.space.recompute_modes import recompute_mode
from search.space.search_space import offered_switches, search_space
from tests.search_workloads import DENSE, MOE, RECURRENT, WINDOWED, request, workload

CONSTANTS = prior_constants("ascend")
LARGE = replace(MOE, name="large-moe", hidden_size=8192, num_attention_heads=64, num_query_groups=64, ffn_hidden_size=24576)
SMALL = SearchLimits(tp=(1, 4, 8), vpp=(1, 2), etp=(1,), micro_batch_size=(1, 2))
LEAN = SearchLimits(
    vpp=(1,), micro_batch_size=(1,), recompute=(recompute_mode("full"),), switches={Feature.SWAP_OPTIMIZER: (True,)}
)


def ticking(step_s: float = 1.0) -> Callable[[], float]:
    ticks = count()
    return lambda: next(ticks) * step_s


def run(job: Workload, limits: SearchLimits | None = None, **options: Any) -> SearchResult:
    running = {name: options.pop(name) for name in ("time_limit_s", "on_progress", "pricer", "executor") if name in options}
    return search(request(job, search_space(job, limits), CONSTANTS, limits=limits, **options), **running)


def everything(job: Workload, limits: SearchLimits | None = None) -> list[ParallelStrategy]:
    rows = []
    for chunk in chunks(job, search_space(job, limits), Rejections()):
        legal = charge_illegal(job, chunk.batch, option_rules(job), Rejections())
        rows += [legal.row(index) for index in range(len(legal))]
    return rows


def with_both_settings(job: Workload, limits: SearchLimits) -> SearchLimits:
    """The limits, with every switch that a search treats in some way as a dimension, less those that a page warns of."""
    warned = Feature(sum(each.feature for each in cautions_of(job.software.target))) if job.model.moe else Feature(0)
    ways = treated(InSearch.ON, InSearch.LEAN_ON, InSearch.LEAN_OFF) & ~DEFAULT_FEATURES & ~warned
    return replace(limits, switches=dict.fromkeys(ways & offered_switches(job) & possible(job.model), (False, True)))


def with_room(job: Workload, times: float) -> Workload:
    """The job with this many times the device memory."""
    rule = fit_rule(job, CONSTANTS)
    return replace(job, room=MemoryRoom(rule.memory_limit_bytes - times * rule.room_bytes))


@pytest.mark.parametrize("room", [0.97, 1.0, 1.005, 1.1])
@pytest.mark.parametrize(
    ("model", "target", "objective"),
    [
        ("dense", "any", "step_time"),
        ("dense", "mindspeed-llm", "step_time"),
        ("moe", "mindspeed-llm", "step_time"),
        ("moe", "any", "step_time"),
        ("dense", "mindspeed-llm", "memory_headroom"),
    ],
)
def test_no_setting_of_a_switch_that_was_not_tried_is_better(model: str, target: str, objective: str, room: float) -> None:
    # Large enough that most plans fit with some switches only.
    shape = (
        replace(LARGE, num_layers=15)
        if model == "moe"
        else replace(DENSE, num_layers=80, hidden_size=8192, ffn_hidden_size=24576)
    )
    job = with_room(workload(shape, num_devices=16, target=target), room)
    limits = SearchLimits(
        tp=(4, 8), pp=(1, 2), vpp=(1, 2), ep=(1, 8), etp=(1,), micro_batch_size=(1,), dispatcher=None,
        recompute=(recompute_mode("none"), recompute_mode("full")),
    )  # fmt: skip
    if model == "moe":
        limits = replace(limits, dispatcher=(Dispatcher.ALLTOALL,))
    lazy, whole = (run(job, each, objective=objective, top=2) for each in (limits, with_both_settings(job, limits)))
    assert whole.counts.enumerated > 4 * lazy.counts.enumerated
    assert room > 1.0 or lazy.plans[0].parallel.features & treated(InSearch.LEAN_ON)
    name = "step_time_s" if objective == "step_time" else "peak_memory_bytes"
    assert lazy.plans[0].estimate[name] == pytest.approx(whole.plans[0].estimate[name], rel=1e-12)


def test_the_first_plan_is_the_fastest_that_fits_of_all_priced_at_once() -> None:
    job = workload(DENSE, num_devices=8)
    limits = SearchLimits(switches=dict.fromkeys(treated(InSearch.LEAN_ON), (False,)))  # no leaner forms
    result = run(job, limits)
    strategies = everything(job, limits)
    priced = simulate(job, StrategyBatch.of(strategies), CONSTANTS)
    fitting = np.flatnonzero(priced.fits)
    counts = result.counts
    assert counts.legal == len(strategies)
    assert counts.simulated is not None
    assert 0 < counts.fits_memory <= len(fitting)
    assert counts.pruned_by_bound + counts.simulated >= len(fitting)
    assert result.plans[0].estimate["step_time_s"] == pytest.approx(priced.step_time_s[fitting].min(), rel=1e-12)
    assert result.proof.exhaustive
    assert result.proof.proved_best
    assert result.proof.optimality_gap_fraction == 0.0


def test_a_search_leaves_the_ring_to_models_that_look_at_everything() -> None:
    limits = replace(SMALL, tp=(4,), cp=(2,), vpp=(1,))
    algorithms = {
        model.name: {row.cp_algo for row in everything(workload(model, seq_length=8192), limits)} for model in (DENSE, WINDOWED)
    }
    assert algorithms == {"small-dense": {CpAlgo.RING, CpAlgo.ULYSSES}, "small-windowed": {CpAlgo.ULYSSES}}
    # A window as long as the sequence is none.
    assert {row.cp_algo for row in everything(workload(WINDOWED, seq_length=1024), limits)} == {CpAlgo.RING, CpAlgo.ULYSSES}


@pytest.mark.parametrize(
    ("model", "limits"),
    [
        (DENSE, None),
        (MOE, SMALL),
        (MOE, replace(SMALL, schedule=tuple(Schedule), tp=(4,))),
        (WINDOWED, SMALL),
        (RECURRENT, replace(SMALL, tp=(4,))),
    ],
)
def test_the_proof_holds_against_simulating_everything(model: Any, limits: SearchLimits | None) -> None:
    job = workload(model, num_devices=16, global_batch_size=128)
    result = run(job, limits, top=3)
    strategies = everything(job, limits)
    simulated = simulate(job, StrategyBatch.of(strategies), CONSTANTS)
    best_s = simulated.step_time_s[simulated.fits].min()
    assert result.proof.proved_best
    assert result.plans[0].estimate["step_time_s"] == pytest.approx(best_s, rel=1e-12)
    counts = result.counts
    assert counts.simulated is not None
    assert 0 < counts.simulated < counts.fits_memory
    assert counts.pruned_by_bound == counts.legal - counts.estimated + counts.fits_memory - counts.simulated


@pytest.mark.parametrize(("model", "limits"), [(DENSE, None), (MOE, SMALL), (replace(MOE, mtp_num_layers=1), SMALL)])
def test_a_search_that_begins_with_good_plans_lists_the_same_and_prices_less(
    model: Any, limits: SearchLimits | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = workload(model, num_devices=16, global_batch_size=128)
    usual = run(job, limits, top=2)
    monkeypatch.setattr(LatticeSearch, "least_rows", 1)
    begun = run(job, limits, top=2)
    assert [(plan.plan_id, plan.estimate) for plan in begun.plans] == [(plan.plan_id, plan.estimate) for plan in usual.plans]
    assert begun.proof == usual.proof
    assert begun.counts.estimated is not None
    assert usual.counts.estimated is not None
    assert begun.counts.estimated < usual.counts.estimated


def test_a_search_that_is_cut_at_once_lists_the_plans_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatticeSearch, "least_rows", 1)
    job = workload(DENSE, num_devices=16, global_batch_size=128)
    found = run(job, top=2, on_progress=lambda _: False)
    assert found.proof.stopped_by is not None
    assert len(found.plans) == 2


def test_a_long_list_that_is_cut_at_once_begins_with_plans_of_all_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatticeSearch, "least_rows", 1)
    job = workload(MOE, num_devices=16, global_batch_size=128)
    places = len(run(job, SMALL, top=1000).plans)  # more than the first pipelines have, fewer than a long list asks for
    monkeypatch.setattr(lattice_search, "MOST_PIPELINES", 1)
    assert len(run(job, SMALL, top=places, on_progress=lambda _: False).plans) < places
    monkeypatch.setattr(lattice_search, "LONG", places)
    assert len(run(job, SMALL, top=places, on_progress=lambda _: False).plans) == places


def test_a_long_list_reports_every_pipeline_that_it_looks_at_before_the_first_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatticeSearch, "least_rows", 1)
    monkeypatch.setattr(lattice_search, "LONG", 2)
    job = workload(MOE, num_devices=16, global_batch_size=128)
    space, beats = search_space(job), list[None]()
    lattice = LatticeSearch(request(job, space, CONSTANTS, top=2))
    with heartbeats_to(lambda: beats.append(None)):
        lattice.advance()
    assert lattice.state.num_chunks <= 1
    assert len(beats) == sum(1 for _ in chunks(job, space, Rejections()))


def test_a_proof_that_is_cut_reports_the_bound_it_dropped() -> None:
    job = workload(LARGE, num_devices=16)
    ended_early = run(job, SMALL, top=1, max_simulations=1)
    proved = run(job, SMALL, top=1)
    assert proved.counts.simulated is not None
    assert proved.counts.simulated > 5  # one would not do
    assert not ended_early.proof.proved_best
    assert ended_early.proof.exhaustive  # everything was enumerated and bounded
    assert ended_early.proof.stopped_by == "max_simulations"
    gap = ended_early.proof.optimality_gap_fraction
    assert gap is not None
    best_s, found_s = (result.plans[0].estimate["step_time_s"] for result in (proved, ended_early))
    assert 0 < gap < 1
    assert best_s >= found_s * (1 - gap) * (1 - 1e-12)


def test_a_proof_that_is_cut_says_how_many_places_it_has() -> None:
    job = workload(LARGE, num_devices=16)
    whole = run(job, SMALL, top=6)
    assert whole.proof.places == len(whole.plans) == 6
    assert whole.counts.simulated is not None
    times = sorted(plan.estimate["step_time_s"] for plan in whole.plans)
    numbers = set()
    for most in range(6, whole.counts.simulated, whole.counts.simulated // 4):
        found = run(job, SMALL, top=6, max_simulations=most)
        numbers.add(found.proof.places)
        assert found.proof.proved_best == (found.proof.places > 0)
        assert (found.proof.stopped_by is None) == found.proof.proved_best
        proved = sorted(plan.estimate["step_time_s"] for plan in found.plans)[: found.proof.places]
        assert proved == pytest.approx(times[: len(proved)], rel=1e-12)
    assert len(numbers) > 1


def test_counts_add_up_and_rejections_carry_their_numbers() -> None:
    result = run(workload(MOE, num_devices=16), SMALL)
    assert result.counts.enumerated == result.counts.legal + sum(rejection.count for rejection in result.rejections)
    assert [rejection.count for rejection in result.rejections] == sorted((r.count for r in result.rejections), reverse=True)
    assert all(any(character.isdigit() for character in rejection.example) for rejection in result.rejections)


def test_plans_are_ranked_distinct_and_priced_as_if_alone() -> None:
    job = workload(MOE, num_devices=16)
    result = run(job, SMALL, top=5)
    times = [plan.estimate["step_time_s"] for plan in result.plans]
    assert times == sorted(times)
    assert [plan.rank for plan in result.plans] == [1, 2, 3, 4, 5]
    structures = {tuple(plan.strategy[name] for name in ("tp", "pp", "cp", "ep", "vpp", "schedule")) for plan in result.plans}
    assert len(structures) == 5
    for plan in result.plans:
        alone = simulate(job, StrategyBatch.of([plan.parallel]), CONSTANTS)
        assert plan.estimate["fidelity"] == "simulated"
        assert plan.estimate["step_time_s"] == pytest.approx(alone.step_time_s[0], rel=1e-12)
        for variant in plan.variants:
            assert variant["step_time_s"] >= plan.estimate["step_time_s"]
            assert variant["change"]
    ids = [plan.plan_id for plan in result.plans] + [variant["plan_id"] for plan in result.plans for variant in plan.variants]
    assert len(set(ids)) == len(ids)


def test_the_same_input_gives_the_same_bytes() -> None:
    job = workload(MOE, num_devices=16)
    one, two = (json.dumps(run(job, SMALL, top=3).to_mapping(), allow_nan=False) for _ in range(2))
    assert one == two


def test_no_single_change_of_the_best_plan_is_faster_and_fits() -> None:
    result = run(workload(MOE, num_devices=16), SMALL, top=1)
    neighbours = result.plans[0].explanation["neighbours"]
    assert neighbours
    assert not [entry for entry in neighbours if entry["fits"] and entry["delta_fraction"] < 0]


def test_headroom_is_an_objective() -> None:
    job = workload(DENSE, num_devices=8)
    result = run(job, objective="memory_headroom", top=1)
    batch = StrategyBatch.of(everything(job))
    forms = memory_saving_forms(job, batch, search_space(job).leaner)
    assert forms is not None
    priced = estimate(job, forms[0].take(legal_mask(job, forms[0])), CONSTANTS)
    assert result.plans[0].estimate["peak_memory_bytes"] == pytest.approx(priced.peak_memory_bytes.min(), rel=1e-12)
    assert result.proof.objective == "memory_headroom"


def test_device_hours_rank_as_step_time_on_a_given_cluster() -> None:
    job = workload(DENSE, num_devices=8)
    assert run(job, objective="device_hours", top=3).plans[0].plan_id == run(job, top=3).plans[0].plan_id


def test_a_time_limit_cuts_the_search_and_the_answer_says_so() -> None:
    job = workload(MOE, num_devices=16)
    result = run(job, SMALL, clock=ticking(), time_limit_s=20.0)
    whole = run(job, SMALL)
    assert result.proof.stopped_by == "time_limit"
    assert not result.proof.exhaustive
    assert not result.proof.proved_best
    assert result.proof.optimality_gap_fraction is None
    assert 0 < result.counts.enumerated < whole.counts.enumerated
    assert result.counts.enumerated == result.counts.legal + sum(r.count for r in result.rejections)


def test_progress_may_stop_the_search() -> None:
    seen: list[Progress] = []

    def stop_at_the_third(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) < 3

    result = run(workload(DENSE, num_devices=8), on_progress=stop_at_the_third)
    assert len(seen) == 3
    assert result.proof.stopped_by == "interrupt"
    assert result.counts.enumerated == seen[-1].enumerated
    assert [p.done_fraction for p in seen] == sorted(p.done_fraction for p in seen)
    assert result.plans  # what was found is kept


def test_an_interrupt_keeps_what_was_found() -> None:
    calls = 0

    def interrupted(priced: PricedBatch, *, memory: bool = True) -> Estimate:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return estimate_priced(priced, memory=memory)

    result = run(workload(DENSE, num_devices=8), pricer=interrupted)
    assert result.proof.stopped_by == "interrupt"
    assert result.plans
    assert result.counts.enumerated == result.counts.legal + sum(r.count for r in result.rejections)


def test_phases_add_up_to_the_scan() -> None:
    timing = run(workload(DENSE, num_devices=8), clock=ticking(0.5)).timing
    document = timing.to_mapping()
    assert document["estimate_s"] == timing.enumerate_s + timing.legality_s + timing.price_s
    assert document["simulate_s"] is not None
    assert document["simulate_s"] > 0
    assert 0 < timing.enumerate_s + timing.legality_s + timing.price_s + timing.rank_s <= timing.total_s - timing.explain_s


def test_without_a_clock_there_are_no_timings() -> None:
    assert run(workload(DENSE, num_devices=8)).timing.total_s == 0.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"objective": "energy"}, "objective: 'energy' is not one of step_time, memory_headroom, device_hours"),
        ({"top": 0}, "top: 0 is below 1"),
        ({"time_limit_s": 5.0}, "time_limit_s: 5.0 is not a positive number of seconds of a given clock"),
        ({"time_limit_s": 0.0, "clock": ticking()}, "time_limit_s: 0.0 is not a positive number"),
    ],
)
def test_a_search_that_cannot_run_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SearchError) as refused:
        run(workload(DENSE, num_devices=8), **options)
    assert sentence in str(refused.value)


def test_the_rule_of_thumb_is_beaten() -> None:
    result = run(workload(MOE, num_devices=16), SMALL)
    assert result.baseline is not None
    assert result.baseline.source == "rule_of_thumb"
    assert result.baseline.estimate["fits"]
    assert result.baseline.strategy["recompute"]["granularity"] == "full"
    assert result.baseline.strategy["ep"] == 8  # experts stay in the node
    speedup = result.baseline.estimate["step_time_s"] / result.plans[0].estimate["step_time_s"] - 1.0
    assert result.baseline.speedup_fraction == pytest.approx(speedup)
    assert speedup >= 0.0
    assert "slower than plan 1" in result.baseline.why


def test_a_given_baseline_is_completed_and_compared() -> None:
    job = workload(DENSE, num_devices=8)
    result = run(job, baseline=ParallelStrategy(tp=8, sequence_parallel=True))
    assert result.baseline is not None
    assert result.baseline.source == "given"
    assert result.baseline.strategy["dp"] == 1
    assert result.baseline.speedup_fraction is not None
    assert result.baseline.speedup_fraction > 0


def test_a_baseline_that_cannot_run_is_told_why() -> None:
    result = run(workload(DENSE, num_devices=8), baseline=ParallelStrategy(tp=3))
    assert result.baseline is not None
    assert result.baseline.speedup_fraction is None
    assert result.baseline.violations[0].startswith("world_size: tp 3")
    assert "cannot run" in result.baseline.why


def test_nothing_fits_names_the_shortfall_and_devices_that_are_enough() -> None:
    job = workload(LARGE, num_devices=4)
    result = run(job, SMALL)
    assert result.plans == ()
    assert result.counts.legal > result.counts.fits_memory == 0
    assert not result.proof.proved_best
    assert result.proof.optimality_gap_fraction is None
    assert result.infeasible is not None
    assert result.infeasible.missing_bytes
    assert result.nearest is not None
    assert f"{result.infeasible.missing_bytes / 2**30:.1f} GiB too much" in result.nearest
    # No legal strategy needs less where its layers lie as usual, in any of its leaner forms.
    rows = StrategyBatch.of(everything(job, SMALL))
    forms = memory_saving_forms(job, rows, search_space(job, SMALL).leaner)
    assert forms is not None
    leaner = charge_illegal(job, forms[0], option_rules(job), Rejections())
    least = min(float(estimate(job, batch, CONSTANTS).peak_memory_bytes.min()) for batch in (rows, leaner))
    assert result.infeasible.peak_memory_bytes == pytest.approx(least, rel=1e-9)
    enough = next(change.fields for change in result.infeasible.changes if "cluster.num_devices" in change.fields)
    number = enough["cluster.num_devices"]
    assert f"{number} devices" in result.nearest
    assert run(workload(LARGE, num_devices=number), SMALL, top=1).plans
    assert not run(workload(LARGE, num_devices=number // 2), SMALL, top=1).plans


def test_limits_alone_may_stand_between_search_and_plan() -> None:
    result = run(workload(LARGE, num_devices=64), SearchLimits(tp=(1,), pp=(1,), ep=(1,), vpp=(1,), micro_batch_size=(1,)))
    assert result.plans == ()
    assert result.nearest is not None
    assert "pp as the search chooses" in result.nearest


def test_nothing_legal_says_what_most_strategies_break() -> None:
    result = run(workload(DENSE, num_devices=8), SearchLimits(tp=(3,)))
    assert result.plans == ()
    assert result.counts.legal == 0
    assert result.nearest is not None
    assert result.nearest.startswith("No strategy is legal; what comes nearest breaks: tp 3")


def test_a_refusal_of_the_whole_job_is_told_first_and_once() -> None:
    job = workload(replace(DENSE, sandwich_norm=True), num_devices=8, target="megatron-lm")
    result = run(job, SearchLimits(tp=(1, 2, 3), vpp=(1, 2)))
    assert result.plans == ()
    assert result.nearest is not None
    assert result.nearest.startswith(f"{job.software.target} takes no strategy of this job: ")
    assert "4 norms a layer" in result.nearest
    assert [(rejected.rule, rejected.count) for rejected in result.rejections] == [
        ("megatron_sandwich_norm", result.counts.enumerated)
    ]


def test_limits_that_leave_nothing_are_told() -> None:
    job = workload(DENSE, num_devices=8, seq_length=32768)
    result = run(job, SearchLimits(cp=(2,), cp_algo=(CpAlgo.HYBRID,)))
    assert result.counts.enumerated == 0
    assert result.nearest is not None
    assert result.nearest.startswith("The search space is empty: its limits leave no strategy to try. What would do")
    assert "cp as the search chooses" in result.nearest


def test_the_legal_part_of_the_lattice_is_what_one_enumeration_leaves() -> None:
    job = workload(DENSE, num_devices=8)
    counts = run(job, SMALL).counts
    assert counts.lattice_legal == len(everything(job, SMALL))
    assert counts.forms == counts.enumerated - (counts.lattice or 0)

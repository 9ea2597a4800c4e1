from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cost_models.constants import PeakSpread, prior_constants
from cost_models.memory.fit import FitRule
from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.step.composition import estimate
from frameworks.legality import legal_mask
from search.explain.explanation import GIB, best_change, bound_by, changes, compared, neighbours, one_change, shortfall
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, MOE, workload

BARE = FitRule(60.0 * GIB, 0.0, 0.9, PeakSpread())


def priced(headroom_gib: float = 3.0, **parts: float) -> dict[str, object]:
    return {
        "step_time_s": sum(parts.values()),
        "time_breakdown_s": parts,
        "headroom_bytes": headroom_gib * GIB,
        "peak_memory_bytes": (60.0 - headroom_gib) * GIB,
        "fits_probability": 0.97 if headroom_gib > 2 else 0.7 if headroom_gib > 0 else 0.1,
        "fits": headroom_gib > 2,
    }


def test_the_largest_part_bounds_a_plan() -> None:
    sentence = bound_by(priced(matmul=5.0, tp_comm=3.0, pipeline_bubble=2.0, host=0.0))
    assert sentence == (
        "Matrix multiplication takes 50% of the step, then tensor-parallel communication (30%) and the pipeline bubble (20%); "
        "3.0 GiB of device memory stay free."
    )
    assert "2.5 GiB of device memory are missing." in bound_by(priced(-2.5, matmul=1.0))
    assert bound_by(priced(1.0, matmul=1.0)).endswith(
        "1.0 GiB of device memory stay free, too little to be sure of: it fits with a probability of 70%."
    )


def test_a_slower_plan_lacks_what_its_parts_say() -> None:
    slower = priced(matmul=5.0, ep_comm=4.0, pipeline_bubble=2.0, dp_comm=1.0)
    faster = priced(matmul=5.0, ep_comm=1.0, pipeline_bubble=1.5, dp_comm=2.5)
    assert compared("Plan 2", slower, faster, "this plan") == (
        "Plan 2 is 20.0% slower than this plan: it loses 3 s on expert communication and 0.5 s on the pipeline bubble, "
        "and saves 1.5 s on data-parallel communication."
    )
    assert compared("Plan 1", faster, slower, "plan 2").startswith(
        "Plan 1 is 16.7% faster than plan 2: it saves 3 s on expert communication"
    )


def test_a_plan_of_twice_the_time_is_told_so() -> None:
    assert compared("Plan 2", priced(matmul=5.0, recompute=7.0), priced(matmul=5.0), "plan 1") == (
        "Plan 2 takes 2.40 times as long as plan 1: it loses 7 s on recompute."
    )


def test_equal_times_are_told_apart_by_memory() -> None:
    sentence = compared("Plan 2", priced(1.0, matmul=5.0), priced(3.0, matmul=5.0), "this plan")
    assert sentence == "Plan 2 takes as long as this plan, with 2.0 GiB more memory."


def test_changes_name_every_dimension_that_differs() -> None:
    one = ParallelStrategy(tp=8, pp=2, dp=1, sequence_parallel=True)
    other = replace(
        one,
        tp=4,
        dp=2,
        cp_algo=CpAlgo.RING,
        dispatcher=Dispatcher.TWO_LEVEL,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.BLOCK,
        recompute_num_layers=2,
        features=(DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER) & ~Feature.OVERLAP_P2P,
    )
    assert changes(one, other) == (
        "tp 8 -> 4, dp 1 -> 2, cp_algo none -> ring, dispatcher none -> two_level, recompute none -> block:2, "
        "overlap_p2p on -> off, swap_optimizer off -> on"
    )
    assert changes(one, one) == ""


def test_changes_name_the_schedule_and_the_group_of_micro_batches() -> None:
    one = ParallelStrategy(pp=4, vpp=2, schedule=Schedule.INTERLEAVED)
    grouped = replace(one, microbatch_group_size_per_vp_stage=8)
    assert changes(one, grouped) == "micro batches a chunk takes in turn 4 -> 8"
    assert changes(one, replace(one, schedule=Schedule.DUALPIPE_V)) == "schedule interleaved-1f1b -> dualpipev"


def best(**given: object) -> ParallelStrategy:
    return canonical(workload(MOE, num_devices=32), ParallelStrategy(**given))  # type: ignore[arg-type]


def test_neighbours_are_legal_canonical_and_one_step_away() -> None:
    job = workload(MOE, num_devices=32)
    plan = best(
        tp=2, pp=2, ep=8, sequence_parallel=True, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM
    )
    found = neighbours(job, search_space(job), plan)
    assert found
    assert plan not in found
    assert len(set(found)) == len(found)
    assert legal_mask(job, StrategyBatch.of(found)).all()
    assert all(canonical(job, option) == option for option in found)
    degrees = ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size")
    assert all(sum(getattr(option, name) != getattr(plan, name) for name in degrees) <= 1 for option in found)
    assert {option.pp for option in found} == {1, 2, 4}
    assert {option.ep for option in found} == {4, 8, 16}
    assert any(Feature.SWAP_OPTIMIZER in option.features for option in found)


def test_another_schedule_is_a_neighbour_with_the_switches_that_belong_to_it() -> None:
    job = workload(MOE, num_devices=32)
    plan = best(tp=2, pp=2, vpp=2, ep=8, sequence_parallel=True, dispatcher=Dispatcher.ALLTOALL, features=DEFAULT_FEATURES)
    space = replace(search_space(job), wanted=Feature(0))
    found = [option for option in neighbours(job, space, plan) if option.schedule is Schedule.DUALPIPE_V]
    assert found == [
        replace(
            plan,
            schedule=Schedule.DUALPIPE_V,
            features=(plan.features | Feature.MOE_COMM_OVERLAP) & ~Feature.OVERLAP_P2P,
        )
    ]
    listed = search_space(
        job, SearchLimits(schedule=(Schedule.INTERLEAVED, Schedule.ZBV), microbatch_group_size_per_vp_stage=(0, 4))
    )
    others = {(o.schedule, o.microbatch_group_size_per_vp_stage) for o in neighbours(job, listed, plan)}
    assert {(Schedule.ZBV, 0), (Schedule.INTERLEAVED, 4)} <= others


def test_what_one_change_would_gain_is_priced_and_sorted() -> None:
    job = workload(MOE, num_devices=32)
    constants = prior_constants("ascend")
    plan = best(
        tp=4,
        pp=2,
        ep=8,
        sequence_parallel=True,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.UNIFORM,
        recompute_num_layers=1,
    )
    entries = one_change(job, search_space(job), plan, constants, estimate)
    times = [entry["step_time_s"] for entry in entries]
    assert times == sorted(times)
    alone = estimate(job, StrategyBatch.of([plan]), constants).step_time_s[0]
    without = next(entry for entry in entries if entry["change"] == "recompute full -> none")
    expected = estimate(
        job,
        StrategyBatch.of(
            [replace(plan, recompute=Recompute.NONE, recompute_method=RecomputeMethod.NONE, recompute_num_layers=0)]
        ),
        constants,
    )
    assert without["step_time_s"] == pytest.approx(expected.step_time_s[0], rel=1e-12)
    assert without["delta_fraction"] == pytest.approx(expected.step_time_s[0] / alone - 1.0)
    assert without["delta_fraction"] < 0


def test_a_change_of_the_pipeline_names_the_layers_that_its_numbers_are_of() -> None:
    job = workload(DENSE, num_devices=16)
    constants = prior_constants("ascend")
    entries = one_change(job, search_space(job), canonical(job, ParallelStrategy(dp=16)), constants, estimate)
    moved = [entry for entry in entries if "layers of the virtual stages as usual -> " in entry["change"]]
    assert moved
    for entry in moved:
        pp = int(re.search(r"\bpp 1 -> (\d+)", entry["change"])[1])  # type: ignore[index]
        said = entry["change"].rpartition("-> ")[2].split()
        counts = [int(part.rpartition("x")[2]) for part in said for _ in range(int(part.partition("x")[0]) if "x" in part else 1)]
        assert sum(counts) == job.model.num_layers
        assert len(counts) % pp == 0


def test_the_fastest_change_is_told_with_what_forbids_it() -> None:
    change = {"change": "tp 4 -> 2", "delta_fraction": -0.1, "peak_memory_bytes": 70 * GIB, "fits": False}
    assert best_change([change], BARE) == (
        "With tp 4 -> 2 the step would be 10.0% shorter, but it needs 70.0 GiB of device memory, "
        "10.0 GiB too much: the limit is 60.0 GiB."
    )
    fitting = {**change, "peak_memory_bytes": 50 * GIB, "fits": True}
    assert "it fits" in best_change([fitting], BARE)
    assert best_change([{**change, "delta_fraction": 0.1}], BARE) == "No change of a single dimension makes the step shorter."
    assert best_change([], BARE) == "No change of a single dimension makes the step shorter."


def test_what_does_not_fit_says_the_limit_and_what_is_kept_free_of_it() -> None:
    # e^0.1 times the predicted peak must stay within 60 GiB: 54.3 GiB, so that 5.7 GiB are kept free.
    sure = replace(BARE, spread=PeakSpread(-0.1, 0.1))
    assert shortfall(56 * GIB, sure) == "1.7 GiB too much: the limit is 60.0 GiB, of which 5.7 GiB are kept free to be 90 % sure"
    roomy = replace(sure, min_headroom_bytes=4 * GIB, confidence=0.5)
    assert shortfall(57 * GIB, roomy) == (
        "1.0 GiB too much: the limit is 60.0 GiB, of which 4.0 GiB are kept free to be 50 % sure of 4.0 GiB of headroom"
    )


def test_a_plan_alone_in_its_space_has_no_neighbour() -> None:
    job = workload(DENSE, num_devices=1)
    space = replace(search_space(job), tp=(1,), pp=(1,), vpp=(1,), cp=(1,), micro_batch_size=(1,), recompute=(), features=())
    space = replace(space, wanted=Feature(0), leaner=Feature(0))
    assert neighbours(job, space, canonical(job, ParallelStrategy())) == []
    assert one_change(job, space, canonical(job, ParallelStrategy()), prior_constants("ascend"), estimate) == []

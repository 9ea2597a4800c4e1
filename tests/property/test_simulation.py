"""What holds for every simulated step, and between it and the closed form."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.simulation.step_times import simulate, simulated
from cost_models.step.composition import estimate, lower_bound_s
from cost_models.step.priced_groups import priced_groups
from cost_models.step.result import Estimate
from tests.placements import placements
from tests.property.test_estimates import columns, on, strategies, with_links, workloads

DEVICES = 512
TOLERANCE = 1e-9
few = settings(max_examples=20)


@st.composite
def scheduled(draw: st.DrawFn, row: ParallelStrategy, schedule: Schedule) -> ParallelStrategy:
    """The strategy under another schedule, with the switches that this one has."""
    features = row.features & ~(Feature.MOE_COMM_OVERLAP | Feature.DUALPIPEV_DW_DETACH)
    if schedule in (Schedule.INTERLEAVED, Schedule.DUALPIPE, Schedule.DUALPIPE_V) and draw(st.booleans()):
        features |= Feature.MOE_COMM_OVERLAP
    if schedule is Schedule.DUALPIPE_V and draw(st.booleans()):
        features |= Feature.DUALPIPEV_DW_DETACH
    vpp = 2 if schedule.rules.is_vee else draw(st.integers(2, 3)) if schedule is Schedule.INTERLEAVED else 1
    return replace(row, schedule=schedule, vpp=vpp, features=features, zero_stage=min(row.zero_stage, 1))


@st.composite
def placed(draw: st.DrawFn, row: ParallelStrategy, model: ModelShape) -> ParallelStrategy:
    """The strategy with its layers and MTP modules anywhere, or where they are by default."""
    if draw(st.booleans()):
        return row
    layout, before_head = draw(placements(model.num_layers, row.pp, row.vpp))
    return replace(row, layer_layout=layout, mtp_before_head=before_head if model.mtp_num_layers else 0)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Workload, list[ParallelStrategy]]:
    """A job and strategies of one shape for it, each with a schedule that its micro batches fill."""
    base = draw(strategies())
    pp = draw(st.sampled_from((2, 4, 8)))
    base = replace(base, pp=pp, dp=DEVICES // (base.tp * pp * base.cp))
    micro_batches = pp * draw(st.sampled_from((2, 3, 4, 9)))
    if base.dp == 0 or base.ep * base.etp > base.tp * base.dp * base.cp:
        base = replace(base, tp=1, cp=1, ep=1, etp=1, dp=DEVICES // pp, cp_algo=type(base.cp_algo)(0), ulysses_degree=1)
    job = draw(workloads())
    if job.model.moe is not None:  # dense layers that merged passes meet in any place of a chunk
        moe = replace(job.model.moe, num_leading_dense_layers=draw(st.sampled_from((0, 1, 5))))
        job = replace(job, model=replace(job.model, moe=moe))
    job = replace(job, model=replace(job.model, mtp_num_layers=draw(st.integers(0, 2))))
    size = base.micro_batch_size * base.dp * micro_batches
    job = replace(job, training=replace(job.training, global_batch_size=size))
    choices = st.sampled_from([schedule for schedule in Schedule if schedule is not Schedule.NONE])
    rows = [draw(placed(draw(scheduled(base, draw(choices))), job.model)) for _ in range(draw(st.integers(1, 4)))]
    return job, rows


def play(job: Workload, *rows: ParallelStrategy, breakdown: bool = False) -> Estimate:
    return simulate(job, StrategyBatch.of(rows), prior_constants(job.cluster.profile.family), breakdown=breakdown)


def close(job: Workload, *rows: ParallelStrategy) -> Estimate:
    return estimate(job, StrategyBatch.of(rows), prior_constants(job.cluster.profile.family))


@given(jobs())
@settings(max_examples=60)
def test_no_simulated_step_beats_the_bound(given: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given
    constants = prior_constants(job.cluster.profile.family)
    assert (close(job, *rows).step_time_lower_bound_s <= play(job, *rows).step_time_s * (1 + TOLERANCE)).all()
    # Also where the closed form is below the bound and hides it.
    for _, group in priced_groups(job, StrategyBatch.of(rows), constants, merge=False, tables=False):
        time = simulated(group, constants)
        assert (lower_bound_s(group, time, constants) <= time.step_s * (1 + TOLERANCE)).all()


@given(jobs())
@few
def test_parts_sum_to_the_total(given: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given
    result = play(job, *rows, breakdown=True)
    assert result.breakdown is not None
    np.testing.assert_allclose(sum(result.breakdown.time_s.values()), result.step_time_s, rtol=TOLERANCE)
    np.testing.assert_allclose(sum(result.breakdown.memory_bytes.values()), result.peak_memory_bytes, rtol=TOLERANCE)
    for table in (result.breakdown.time_s, result.breakdown.masked_s):
        for name, value in table.items():
            assert np.isfinite(value).all(), name
            assert (value >= -TOLERANCE * result.step_time_s).all(), name
    assert result.stage_bubble_s is not None
    assert (result.stage_bubble_s >= 0.0).all()


@given(jobs())
@few
def test_a_batch_is_its_rows(given: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given
    whole = columns(play(job, *rows))
    for index, row in enumerate(rows):
        for name, value in columns(play(job, row)).items():
            assert value[0] == pytest.approx(whole[name][index], rel=1e-12), name


@given(jobs(), st.randoms(use_true_random=False))
@few
def test_the_order_of_rows_does_not_matter(given: tuple[Workload, list[ParallelStrategy]], random) -> None:  # type: ignore[no-untyped-def]
    job, rows = given
    order = list(range(len(rows)))
    random.shuffle(order)
    straight, shuffled = columns(play(job, *rows)), columns(play(job, *(rows[i] for i in order)))
    for name, value in straight.items():
        np.testing.assert_allclose(shuffled[name], value[order], rtol=1e-12, err_msg=name)


@given(jobs())
@few
def test_detail_and_memory_are_those_of_the_closed_form(given: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given
    lean, detailed, closed = columns(play(job, *rows)), columns(play(job, *rows, breakdown=True)), columns(close(job, *rows))
    for name, value in lean.items():
        np.testing.assert_allclose(detailed[name], value, rtol=1e-12, err_msg=name)
        if name.endswith("_bytes"):
            np.testing.assert_allclose(closed[name], value, rtol=1e-12, err_msg=name)


@given(jobs(), st.floats(1.05, 4.0))
@few
def test_more_memory_bandwidth_is_never_slower(given: tuple[Workload, list[ParallelStrategy]], factor: float) -> None:
    job, rows = given
    faster = on(job, hbm_bytes_per_s=job.cluster.profile.hbm_bytes_per_s * factor)
    assert (play(faster, *rows).step_time_s <= play(job, *rows).step_time_s * (1 + TOLERANCE)).all()


@given(jobs(), st.floats(1.05, 4.0), st.sampled_from((0, 1)))
@few
def test_faster_links_are_never_slower(given: tuple[Workload, list[ParallelStrategy]], factor: float, tier: int) -> None:
    job, rows = given
    assert (play(with_links(job, factor, tier), *rows).step_time_s <= play(job, *rows).step_time_s * (1 + TOLERANCE)).all()


@given(jobs())
@few
def test_twice_the_micro_batches_take_longer_and_not_twice_as_long(given: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given
    twice = replace(job, training=replace(job.training, global_batch_size=2 * job.training.global_batch_size))
    assert (play(twice, *rows).step_time_s > play(job, *rows).step_time_s).all()
    # Passes that are merged may take longer than apart if their chunks differ much, and warm-up merges none.
    merged = np.array([bool(row.features & Feature.MOE_COMM_OVERLAP) for row in rows])
    most = np.where(merged, 2.05, 2 * (1 + TOLERANCE))
    assert (play(twice, *rows).step_time_s < most * play(job, *rows).step_time_s).all()

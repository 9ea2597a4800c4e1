"""The closed form and the bound against schedules played event by event."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.pipeline.closed_form import PipelineTime, Surroundings, least_work, pipeline_lower_bound_s, pipeline_time
from cost_models.pipeline.stages import Stages, stages_of
from cost_models.shapes.layout import layer_layout
from tests.oracle.event_loop import Durations, simulate
from tests.worked_examples import worked
from tests.workloads import DENSE


def stages(pp: int, vpp: int = 1) -> Stages:
    """Every rank a kind of its own."""
    return stages_of(DENSE, pp, vpp, merge=False)


@dataclass(frozen=True)
class Passes:
    """``PassTimes`` with the sums given."""

    forward: Any
    backward: Any

    @property
    def whole(self) -> Any:
        return self.forward + self.backward

    pair = whole
    weight_gradient = 0.0


def times(forward: list[list[float]], backward: list[list[float]]) -> Any:
    """``[rank][chunk]`` durations summed over whole ranks."""
    f, b = np.array(forward).sum(axis=1)[:, None], np.array(backward).sum(axis=1)[:, None]
    return Passes(f, b)


def alone(ranks: int) -> Surroundings:
    """Passes with nothing around them."""
    none = np.zeros(1)
    return Surroundings(none, none, none, np.zeros((ranks, 1)), np.zeros((ranks, 1)))


def bound_s(shape: Stages, forward: list[list[float]], backward: list[list[float]], m: float) -> float:
    first = [[[rank[0]] for rank in table] for table in (forward, backward)]
    work = least_work(shape, times(forward, backward), times(first[0], first[1]), np.array([m]), alone(len(forward)))
    return float(pipeline_lower_bound_s(shape, work)[0])


def play(forward: list[list[float]], backward: list[list[float]], num_microbatches: int) -> float:
    """Step time of the same durations, played."""
    durations = Durations(F=lambda rank, chunk, _: forward[rank][chunk], B=lambda rank, chunk, _: backward[rank][chunk])
    return simulate("interleaved-1f1b", len(forward), len(forward[0]), num_microbatches, durations).step_s


def equal(pp: int, vpp: int) -> tuple[list[list[float]], list[list[float]]]:
    """Forward 1 s and backward 2 s a stage."""
    return [[1.0 / vpp] * vpp for _ in range(pp)], [[2.0 / vpp] * vpp for _ in range(pp)]


def closed(pp: int, vpp: int, num_microbatches: int) -> PipelineTime:
    return pipeline_time(stages(pp, vpp), times(*equal(pp, vpp)), np.array([float(num_microbatches)]))


def total(value: PipelineTime) -> float:
    return float(value.steady_s[0] + value.bubble_s[0])


def test_1f1b() -> None:
    assert total(closed(4, 1, 8)) == worked("pipeline-1f1b")
    assert float(closed(4, 1, 8).bubble_s[0]) == pytest.approx(9.0)


def test_interleaving_divides_the_bubble() -> None:
    assert total(closed(4, 2, 8)) == worked("pipeline-interleaved")
    assert float(closed(4, 2, 8).bubble_s[0]) == pytest.approx(4.5)


def test_no_pipeline_no_bubble() -> None:
    assert float(closed(1, 1, 8).bubble_s[0]) == 0.0


def test_a_last_group_that_is_not_full_stalls() -> None:
    # (v - 1) (p - m mod p) chunks of 1.5 s more [calculon]
    assert total(closed(4, 2, 10)) == pytest.approx(10 * 3 + 4.5 + 1 * 2 * 1.5)


@pytest.mark.parametrize(
    ("pp", "vpp", "num_microbatches"), [(2, 1, 2), (4, 1, 3), (8, 1, 32), (4, 2, 8), (8, 2, 16), (4, 4, 12), (3, 5, 6)]
)
def test_equal_stages_take_exactly_as_long_as_the_schedule(pp: int, vpp: int, num_microbatches: int) -> None:
    assert total(closed(pp, vpp, num_microbatches)) == pytest.approx(play(*equal(pp, vpp), num_microbatches))


def test_the_slowest_stage_sets_the_pace() -> None:
    forward, backward = equal(4, 1)
    forward[3], backward[3] = [2.0], [4.0]
    unequal = pipeline_time(stages(4), times(forward, backward), np.array([8.0]))
    assert int(unequal.critical[0]) == 3
    assert total(unequal) == pytest.approx(8 * 6 + 3 * 3)
    assert total(unequal) == pytest.approx(play(forward, backward, 8), rel=0.02)


durations = st.floats(0.1, 10.0)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[list[float]], list[list[float]], int]:
    pp, vpp = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    vpp = vpp if pp > 1 else 1
    table = st.lists(st.lists(durations, min_size=vpp, max_size=vpp), min_size=pp, max_size=pp)
    return draw(table), draw(table), pp * draw(st.integers(1, 4))


@given(pipelines())
def test_no_schedule_beats_the_bound(pipeline: tuple[list[list[float]], list[list[float]], int]) -> None:
    forward, backward, num_microbatches = pipeline
    shape = stages(len(forward), len(forward[0]))
    assert bound_s(shape, forward, backward, num_microbatches) <= play(forward, backward, num_microbatches) * (1 + 1e-9)


@given(pipelines())
def test_1f1b_of_unequal_stages_never_takes_longer(pipeline: tuple[list[list[float]], list[list[float]], int]) -> None:
    forward, backward = ([[factor * rank[0]] for rank in pipeline[0]] for factor in (1.0, 2.0))
    real = play(forward, backward, pipeline[2])
    estimated = total(pipeline_time(stages(len(forward)), times(forward, backward), np.array([float(pipeline[2])])))
    others = sum(f[0] + b[0] for f, b in zip(forward, backward, strict=True))
    assert real <= estimated * (1 + 1e-12)
    assert estimated - real < others  # fill and drain of the other ranks is all that it may count too often


@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_nearly_equal_stages_are_close_under_every_schedule(pp: int, vpp: int, groups: int, random: Any) -> None:
    forward = [[random.uniform(0.95, 1.05) / vpp for _ in range(vpp)] for _ in range(pp)]
    backward = [[2 * f for f in rank] for rank in forward]
    real = play(forward, backward, groups * pp)
    estimated = total(pipeline_time(stages(pp, vpp), times(forward, backward), np.array([float(groups * pp)])))
    assert estimated == pytest.approx(real, rel=0.06)


@given(pipelines())
def test_the_closed_form_is_not_below_the_bound_of_1f1b(pipeline: Any) -> None:
    forward, backward = ([[rank[0]] for rank in table] for table in pipeline[:2])
    micro_batches = np.array([float(pipeline[2])])
    shape, seconds = stages(len(forward)), times(forward, backward)
    assert bound_s(shape, forward, backward, pipeline[2]) <= total(pipeline_time(shape, seconds, micro_batches)) * (1 + 1e-12)


def test_worked_bound() -> None:
    forward, backward = equal(4, 1)
    assert bound_s(stages(4), forward, backward, 8.0) == worked("lower-bound")


def test_merged_ranks_have_the_same_bound() -> None:
    merged, single = stages_of(DENSE, 8, 1), stages_of(DENSE, 8, 1, merge=False)
    layers = np.array(layer_layout(8, 8, 1)[0])
    rng = np.random.default_rng(1)
    each = rng.uniform(1, 2, 3)[[0] + [1] * 6 + [2]] * layers  # first, inner and last rank differ
    whole = times([[x] for x in each], [[2 * x] for x in each])
    kinds: Any = Passes(*(getattr(whole, name)[[0, 1, 7]] for name in Passes.__dataclass_fields__))
    m = np.array([3.0, 16.0])
    np.testing.assert_allclose(
        pipeline_lower_bound_s(merged, least_work(merged, kinds, kinds, m, alone(3))),
        pipeline_lower_bound_s(single, least_work(single, whole, whole, m, alone(8))),
    )
    np.testing.assert_allclose(pipeline_time(merged, kinds, m).bubble_s, pipeline_time(single, whole, m).bubble_s)

"""A pipeline that repeats itself against the same pipeline played to its end."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import Schedule
from cost_models.simulation.lockstep import Durations, ends_s
from cost_models.simulation.program import compiled
from cost_models.simulation.steady import steady_of
from tests.pipelines import shape

SHARES = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.0, Pass.INPUT_GRADIENT: 1.1, Pass.WEIGHT_GRADIENT: 0.9, Pass.PAIR: 2.6}
LONG = [
    shape(Schedule.ONE_F_ONE_B, 4, 32),
    shape(Schedule.INTERLEAVED, 4, 32, vpp=2),
    shape(Schedule.INTERLEAVED, 4, 40, vpp=2, group_size=5),
    shape(Schedule.INTERLEAVED, 4, 32, vpp=2, merge_pairs=True),
    shape(Schedule.ZB1P, 4, 32),
    shape(Schedule.ZB2P, 4, 48),
    shape(Schedule.ZBV, 4, 32),
    shape(Schedule.DUALPIPE, 4, 48, merge_pairs=True),
    shape(Schedule.DUALPIPE_V, 4, 32, merge_pairs=True),
    shape(Schedule.DUALPIPE_V, 4, 32, merge_pairs=True, detach_weight_gradients=True),
]


def played(of: PipelineShape, pace: Any, hop_s: float) -> Any:
    """Ends where rank r takes ``pace[r]`` ``[n]`` times as long."""
    program = compiled(of)
    tasks = np.array([pace[each.rank] * SHARES[each.kind] * (1 + 0.1 * each.chunk) for each in program.classes])
    n = pace.shape[1]
    return ends_s(program, Durations(tasks, np.full(n, hop_s), np.zeros((of.pp, n))))


@pytest.mark.parametrize("of", LONG, ids=lambda of: f"{of.schedule.label}-{of.merge_pairs}-{of.group_size}")
@settings(max_examples=30)
@given(st.lists(st.floats(0.9, 1.1), min_size=12, max_size=12), st.sampled_from([0.0, 0.05]), st.integers(1, 4))
def test_a_steady_state_goes_on(of: PipelineShape, paces: list[float], hop_s: float, periods: int) -> None:
    pace = np.array(paces).reshape(4, 3)
    short = played(of, pace, hop_s)
    long = played(replace(of, num_microbatches=of.num_microbatches + periods * of.period), pace, hop_s)
    reached = ~np.isnan(short.growth_s)
    predicted = short.rank_s + periods * short.growth_s
    np.testing.assert_allclose(predicted[:, reached], long.rank_s[:, reached], rtol=1e-12)


@pytest.mark.parametrize("of", LONG, ids=lambda of: f"{of.schedule.label}-{of.merge_pairs}-{of.group_size}")
def test_ranks_that_are_not_alike_reach_it(of: PipelineShape) -> None:
    pace = np.array([1.5, 1.0, 1.1, 1.2])[:, None]
    of = replace(of, num_microbatches=of.num_microbatches + 16 * of.period)
    assert played(of, pace, 0.0).growth_s[0] == pytest.approx(played_growth(of, pace))


def played_growth(of: PipelineShape, pace: Any) -> float:
    longer = replace(of, num_microbatches=of.num_microbatches + of.period)
    return float((played(longer, pace, 0.0).rank_s - played(of, pace, 0.0).rank_s)[0, 0])


def test_nearly_equal_ranks_that_look_steady_are_not_taken_for_it() -> None:
    # Rank 1 is 0.4 % slower than rank 6, whose later start and earlier end hide that for a hundred micro batches: until then
    # every period adds as much to all ends as the one before.
    pace = np.array([0.9, 1.004, 0.9, 0.9, 0.9, 0.9, 1.0, 0.9])[:, None]
    ends = [played(shape(Schedule.ONE_F_ONE_B, 8, m), pace, 0.0) for m in (32, 40, 48)]
    first, second = ((later.rank_s - earlier.rank_s)[:, 0] for earlier, later in pairwise(ends))
    np.testing.assert_allclose(first, second)
    assert all(np.isnan(each.growth_s[0]) for each in ends)
    assert played(shape(Schedule.ONE_F_ONE_B, 8, 256), pace, 0.0).growth_s[0] == pytest.approx(8 * 3 * 1.004)


def test_gpipe_never_repeats() -> None:
    assert steady_of(shape(Schedule.GPIPE, 4, 32)) is None


@pytest.mark.parametrize("of", LONG, ids=lambda of: f"{of.schedule.label}-{of.merge_pairs}-{of.group_size}")
def test_a_period_holds_every_task_as_often_as_it_has_micro_batches(of: PipelineShape) -> None:
    steady = steady_of(of)
    assert steady is not None
    longer = compiled(replace(of, num_microbatches=of.num_microbatches + of.period))
    counts = dict(zip(longer.classes, longer.class_counts.tolist(), strict=True))
    program = compiled(of)
    for each, count, more in zip(program.classes, program.class_counts.tolist(), steady.class_counts.tolist(), strict=True):
        assert counts[each] == count + more

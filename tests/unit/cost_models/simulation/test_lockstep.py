"""Start and end of every task against pipelines played event by event, and columns against plain floats."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import Schedule
from cost_models.simulation import lockstep
from cost_models.simulation.lockstep import Durations, ends_s, task_times_s
from cost_models.simulation.program import Program, compiled
from tests.oracle.event_loop import Durations as Played
from tests.oracle.event_loop import Result, play
from tests.pipelines import KINDS, oracle_rule, oracle_step, shape, shapes

# Sums of multiples of 2^-10 below 2^20 are exact, in whatever order they are taken.
dyadic = st.integers(0, 2**12).map(lambda number: number / 2**10)
seconds = st.floats(0.0, 10.0)


@dataclass(frozen=True)
class Pipeline:
    program: Program
    durations: Durations

    def played(self, column: int) -> Result:
        """The same, by the oracle."""
        of, given = self.program.shape, self.durations
        table = {each: float(given.tasks[index, column]) for index, each in enumerate(self.program.classes)}
        factor = None if given.micro_batch_factor is None else given.micro_batch_factor[:, column]

        def duration(kind: Pass) -> Any:
            def value(rank: int, chunk: int, micro_batch: int, behind: int = -1, _: int = -1) -> float:
                return table[kind, rank, chunk, behind] * (1.0 if factor is None else float(factor[micro_batch]))  # type: ignore[index]

            return value

        times = Played(**{name: duration(kind) for kind, name in KINDS.items()})
        return play(oracle_rule(of), of.pp, times, p2p_s=float(given.hop_s[column]))


@st.composite
def pipelines(draw: st.DrawFn, values: st.SearchStrategy[float], width: int = 1) -> Pipeline:
    program = compiled(draw(shapes()))
    factor = st.sampled_from([0.5, 1.0, 1.0, 2.0])

    def table(rows: int, of: st.SearchStrategy[float]) -> Any:
        return np.array(draw(st.lists(of, min_size=rows * width, max_size=rows * width))).reshape(rows, width)

    m, pp = program.shape.num_microbatches, program.shape.pp
    stretched = table(m, factor) if draw(st.booleans()) else None
    return Pipeline(
        program, Durations(table(len(program.classes), values), table(1, values)[0], np.zeros((pp, width)), stretched)
    )


def assert_same_times(pipeline: Pipeline, tolerance: float) -> None:
    of, played = pipeline.program.shape, pipeline.played(0)
    expected = {(rank, span.step): span[1:] for rank, spans in enumerate(played.spans) for span in spans}
    found = {
        (step.rank, oracle_step(of, step.task)): times
        for step, *times in zip(pipeline.program.steps, *task_times_s(pipeline.program, pipeline.durations, 0), strict=True)
    }
    assert found.keys() == expected.keys()
    for task, (start_s, end_s) in expected.items():
        if tolerance:
            assert found[task] == pytest.approx([start_s, end_s], rel=tolerance, abs=tolerance)
        else:
            assert found[task] == [start_s, end_s], task


@given(pipelines(dyadic))
def test_every_task_starts_and_ends_when_the_event_loop_says(pipeline: Pipeline) -> None:
    assert_same_times(pipeline, tolerance=0.0)


@given(pipelines(seconds))
def test_the_same_for_any_durations_but_for_rounding(pipeline: Pipeline) -> None:
    assert_same_times(pipeline, tolerance=1e-12)


@given(pipelines(seconds, width=3), st.integers(64, 4096))
def test_columns_and_plain_floats_agree_to_the_last_bit(pipeline: Pipeline, ring_bytes: int) -> None:
    program, durations = pipeline.program, pipeline.durations
    starts = np.linspace(0.0, 2.0, durations.start_s.size).reshape(durations.start_s.shape)
    durations = Durations(durations.tasks, durations.hop_s, starts, durations.micro_batch_factor)
    together = ends_s(program, durations).rank_s
    for column in range(3):
        ends = task_times_s(program, durations, column)[1]
        assert together[:, column].tolist() == [ends[position] for position in program.last_positions]
        alone = ends_s(program, durations.take(slice(column, column + 1))).rank_s
        assert alone[:, 0].tolist() == together[:, column].tolist()


def test_blocks_of_candidates_are_evaluated_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(shape(Schedule.INTERLEAVED, 4, 8, vpp=2))
    random = np.random.default_rng(0)
    n = 200  # four blocks of 64 at least
    given = Durations(random.random((len(program.classes), n)), random.random(n), random.random((4, n)), random.random((8, n)))
    whole = ends_s(program, given).rank_s
    monkeypatch.setattr(lockstep, "RING_BYTES", 1)
    np.testing.assert_array_equal(ends_s(program, given).rank_s, whole)


def test_the_ring_of_end_times_is_as_long_as_the_farthest_need() -> None:
    # GPipe's first backward waits for a forward before all others of its rank, ZB-H2's last weight gradients for old backwards.
    for of in (shape(Schedule.GPIPE, 4, 64), shape(Schedule.ZB2P, 4, 64), shape(Schedule.INTERLEAVED, 4, 64, vpp=3)):
        program = compiled(of)
        assert program.num_rows < len(program.steps)


def test_a_rank_begins_when_it_can() -> None:
    # Two ranks, F = 1, B = 2, one micro batch: F0 1..2 once rank 0 has its weights, then rank 1, which waits for its own.
    program = compiled(shape(Schedule.ONE_F_ONE_B, 2, 1))
    tasks = np.array([[1.0 if each.kind is Pass.FORWARD else 2.0] * 2 for each in program.classes])
    ends = ends_s(program, Durations(tasks, np.zeros(2), np.array([[1.0, 1.0], [0.0, 5.0]]))).rank_s
    assert ends.tolist() == [[2 + 1 + 2 + 2, 5 + 1 + 2 + 2], [2 + 1 + 2, 5 + 1 + 2]]


def test_a_micro_batch_that_takes_twice_as_long_does_on_every_rank() -> None:
    program = compiled(shape(Schedule.ONE_F_ONE_B, 2, 2))
    tasks = np.array([[1.0 if each.kind is Pass.FORWARD else 2.0] for each in program.classes])
    given = Durations(tasks, np.zeros(1), np.zeros((2, 1)), np.array([[2.0], [1.0]]))
    # Rank 0: F0 0..2, F1 2..3, B0 8..12, B1 12..14; rank 1: F0 2..4, B0 4..8, F1 8..9, B1 9..11.
    assert ends_s(program, given).rank_s.tolist() == [[14.0], [11.0]]


def test_the_second_direction_of_dualpipe_takes_the_second_half_of_the_micro_batches() -> None:
    program = compiled(shape(Schedule.DUALPIPE, 2, 4))
    factor = np.array([[1.0], [1.0], [1.0], [3.0]])
    given = Durations(np.ones((len(program.classes), 1)), np.zeros(1), np.zeros((2, 1)), factor)
    starts, ends = task_times_s(program, given, 0)
    long = {
        (step.task.chunk, step.task.micro_batch) for step, s, e in zip(program.steps, starts, ends, strict=True) if e - s == 3
    }
    assert long == {(1, 1)}


def test_dyadic_sums_are_exact() -> None:
    assert float(sum(Fraction(k, 2**10) for k in range(2**12))) == sum(k / 2**10 for k in range(2**12))

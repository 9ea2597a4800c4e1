"""Pipelines of more tasks than are played: their step is the closed form's, and nothing long is compiled for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.schedules.schedule import PipelineShape
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.simulation import program, step_times
from cost_models.simulation.program import Program, compiled
from cost_models.simulation.step_times import MOST_TASKS, simulate
from cost_models.step.composition import estimate
from tests.networks import ascend_a2
from tests.workloads import DENSE, constants, workload

EIGHT = replace(ascend_a2(), num_devices=8)
GPIPE = ParallelStrategy(pp=8, schedule=Schedule.GPIPE)
DEEP = replace(DENSE, num_layers=8)


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tasks of every program that is compiled for a step."""
    found: list[int] = []

    def counted(shape: PipelineShape) -> Program:
        compiled_now = compiled(shape)
        found.append(compiled_now.num_tasks)
        return compiled_now

    monkeypatch.setattr(step_times, "compiled", counted)
    return found


def steps(num_microbatches: int, *strategies: ParallelStrategy) -> tuple[list[float], list[float]]:
    """Of each strategy, simulated and in closed form."""
    job = workload(DEEP, cluster=EIGHT, global_batch_size=num_microbatches, seq_length=1)
    batch = StrategyBatch.of(strategies)
    return simulate(job, batch, constants()).step_time_s.tolist(), estimate(job, batch, constants()).step_time_s.tolist()


def test_half_a_million_micro_batches_of_gpipe_are_not_played(lengths: list[int]) -> None:
    simulated, closed = steps(524_288, GPIPE)
    assert simulated == closed
    assert not lengths


def test_a_pipeline_that_repeats_itself_is_played_whatever_its_length(lengths: list[int]) -> None:
    one_f_one_b = replace(GPIPE, schedule=Schedule.ONE_F_ONE_B)
    (long, beside), (_, closed) = steps(524_288, one_f_one_b, GPIPE)
    assert 0 < max(lengths) < 10_000
    assert beside == closed
    assert steps(524_288, one_f_one_b)[0] == [long]  # what stands beside it does not matter


def test_the_longest_that_is_played(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_times, "MOST_TASKS", MOST_TASKS // 64)
    most = step_times.MOST_TASKS // (2 * GPIPE.pp)
    steps(most, GPIPE)
    assert set(lengths) == {step_times.MOST_TASKS}
    lengths.clear()
    steps(most + 1, GPIPE)
    assert not lengths


def test_idle_time_of_what_is_not_played_is_what_its_ranks_do_not_work() -> None:
    job = workload(DEEP, cluster=EIGHT, global_batch_size=65_536, seq_length=1)
    found = simulate(job, StrategyBatch.of([GPIPE]), constants(), breakdown=True)
    assert found.breakdown is not None
    assert found.stage_bubble_s is not None
    assert sum(part[0] for part in found.breakdown.time_s.values()) == pytest.approx(found.step_time_s[0], rel=1e-9)
    assert (found.stage_bubble_s[:, 0] >= 0.0).all()
    assert np.isclose(found.stage_bubble_s[:, 0].min(), found.breakdown.time_s["pipeline_bubble"][0], rtol=0.05)


def test_programs_are_kept_for_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_KEPT", 100)
    one, other, long = (PipelineShape(Schedule.ONE_F_ONE_B, 2, 1, m) for m in (10, 11, 200))
    kept = compiled(one), compiled(other)
    assert [compiled(one) is kept[0], compiled(other) is kept[1]] == [True, True]
    compiled(long)
    assert list(program._KEPT) == [long]
    assert compiled(one) is not kept[0]
    assert list(program._KEPT) == [one]


@pytest.mark.parametrize("most", [64, 1024])
def test_what_does_not_repeat_itself_in_time_has_the_closed_form_too(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(step_times, "MOST_TASKS", most)
    monkeypatch.setattr(step_times, "steady_of", lambda _shape: None)
    monkeypatch.setattr("cost_models.simulation.lockstep.steady_of", lambda _shape: None)
    simulated, closed = steps(4096, replace(GPIPE, schedule=Schedule.ONE_F_ONE_B))
    assert simulated == closed

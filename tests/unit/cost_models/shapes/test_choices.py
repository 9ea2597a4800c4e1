"""Schedules, dispatchers and context-parallel algorithms: every member is whole, and is priced as itself."""

import re
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes import effective_switches
from cost_models.shapes.canonical import canonical_cp, schedules_of
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from tests.networks import ascend_a2
from tests.workloads import DENSE, SPARSE, priced, workload

PIPELINES = [(schedule, vpp) for schedule in Schedule for vpp in (1, 2) if schedule.rules.runs(4, vpp)]
FIRST_IMPRESSION = 0.1  # the closed form differs from the simulation by less, so that a schedule without its own is seen


def test_the_schedules_of_a_pipeline() -> None:
    one = Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.ZB1P, Schedule.ZB2P, Schedule.DUALPIPE
    assert schedules_of(1, 1) == (Schedule.NONE,)
    assert schedules_of(4, 1) == one
    assert schedules_of(4, 2) == (Schedule.INTERLEAVED, Schedule.ZBV, Schedule.DUALPIPE_V)
    assert schedules_of(4, 3) == (Schedule.INTERLEAVED,)


def test_every_schedule_runs_in_some_pipeline() -> None:
    assert {schedule for schedule, _ in PIPELINES} | {Schedule.NONE} == set(Schedule)


@pytest.mark.parametrize(("schedule", "vpp"), PIPELINES, ids=lambda value: getattr(value, "label", value))
def test_a_schedule_takes_as_long_as_its_tasks_played_one_by_one(schedule: Schedule, vpp: int) -> None:
    job, constants = workload(DENSE), prior_constants("ascend")
    rows = StrategyBatch.of([ParallelStrategy(pp=4, vpp=vpp, schedule=schedule)])
    closed, played = (price(job, rows, constants).step_time_s[0] for price in (estimate, simulate))
    assert closed == pytest.approx(played, rel=FIRST_IMPRESSION)


def test_no_two_schedules_share_a_price() -> None:
    rows = [ParallelStrategy(pp=4, vpp=vpp, schedule=schedule) for schedule, vpp in PIPELINES]
    result = priced(workload(DENSE), *rows)
    prices = np.stack([result.step_time_s, result.peak_memory_bytes], axis=1)
    for (a, first), (b, second) in combinations(zip(PIPELINES, prices, strict=True), 2):
        assert not np.array_equal(first, second), (a, b)


def test_no_two_dispatchers_share_a_price() -> None:
    rows = [ParallelStrategy(dp=32, ep=16, dispatcher=dispatcher) for dispatcher in Dispatcher if dispatcher]
    assert len(set(priced(workload(SPARSE), *rows).step_time_s.tolist())) == len(Dispatcher) - 1


def test_no_two_algorithms_of_context_parallelism_share_a_price() -> None:
    forms = [canonical_cp(4, algo, 2) for algo in CpAlgo if algo]
    rows = [ParallelStrategy(cp=4, cp_algo=algo, ulysses_degree=degree) for algo, degree in forms]
    job = workload(DENSE, cluster=ascend_a2(latency_s=1e-6), seq_length=65536)
    assert len(set(priced(job, *rows).step_time_s.tolist())) == len(CpAlgo) - 1


@pytest.mark.parametrize("dispatcher", [dispatcher.name for dispatcher in Dispatcher])
def test_a_dispatcher_without_scopes_cannot_be_imported(dispatcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(effective_switches.__file__).read_text(encoding="utf-8")
    left_out, number = re.subn(rf"^    Dispatcher\.{dispatcher}: Scope\..*\n", "", text, flags=re.MULTILINE)
    assert number == 1, "effective_switches.py has changed: bring this test up to date"
    half = ModuleType("half_done")
    monkeypatch.setitem(sys.modules, half.__name__, half)
    with pytest.raises(KeyError):
        exec(compile(left_out, "half_done", "exec"), half.__dict__)

import math
import weakref

import pytest

from calibration.measurements.cases import Case, Kind, default_cases
from calibration.measurements.timing import (
    BATCH_S,
    MAX_CALLS,
    Measured,
    Skipped,
    UnsupportedCaseError,
    Work,
    measure,
    sustained,
)
from tests.measured import FakeBackend, one_call_s


class Device:
    """Calls take ``first_s`` until ``warm_s`` have passed, then ``then_s``: a clock that drops as the device heats up."""

    def __init__(self, first_s: float, then_s: float, warm_s: float) -> None:
        self.first_s, self.then_s, self.warm_s = first_s, then_s, warm_s
        self.passed_s, self.calls = 0.0, 0

    def __call__(self, calls: int) -> float:
        took = calls * (self.first_s if self.passed_s < self.warm_s else self.then_s)
        self.passed_s, self.calls = self.passed_s + took, self.calls + calls
        return took


def test_the_rate_is_what_the_device_keeps_and_not_its_burst() -> None:
    timing = sustained(Device(first_s=1e-3, then_s=1.25e-3, warm_s=0.5), seconds=3.0)
    assert timing.time_s == pytest.approx(1.25e-3)
    assert timing.burst_time_s == pytest.approx(1e-3)
    assert timing.spread_fraction == pytest.approx(0.0)


def test_it_runs_for_the_seconds_that_are_asked_for_in_batches_that_can_be_timed() -> None:
    device = Device(1e-5, 1e-5, 0.0)
    timing = sustained(device, seconds=2.0)
    assert 2.0 <= timing.elapsed_s < 2.0 + 2.0 * BATCH_S
    assert timing.elapsed_s == pytest.approx(timing.num_calls * 1e-5)
    assert timing.num_calls < device.calls  # the first calls load and compile, and count nowhere


def test_a_call_longer_than_the_time_runs_once_more_than_it_warms_up() -> None:
    timing = sustained(Device(10.0, 10.0, 0.0), seconds=1.0)
    assert (timing.num_calls, timing.time_s) == (1, 10.0)


def test_a_call_of_no_length_to_speak_of_does_not_run_for_ever() -> None:
    timing = sustained(Device(1e-9, 1e-9, 0.0), seconds=1e-3)
    assert timing.num_calls % MAX_CALLS == 0
    assert timing.time_s == pytest.approx(1e-9)


def test_spread_is_the_range_of_the_middle_of_the_batches() -> None:
    times = iter([1.0, 1.0, *([1.0, 1.2] * 10)])
    timing = sustained(lambda calls: next(times), seconds=20.0)
    assert timing.spread_fraction == pytest.approx(0.2 / 1.1, abs=0.02)


@pytest.mark.parametrize("says", [0.0, -1.0, math.nan, math.inf])
def test_a_clock_that_stands_still_is_no_measurement(says: float) -> None:
    with pytest.raises(UnsupportedCaseError, match="no time is taken"):
        sustained(lambda calls: says, seconds=1.0)


def test_what_a_device_cannot_run_is_skipped_with_its_reason() -> None:
    backend = FakeBackend(refused={Kind.MATMUL: "no matrix unit."})
    found = list(measure(backend, default_cases(2), 0.1))
    skipped = [result for result in found if isinstance(result, Skipped)]
    assert {result.case.kind for result in skipped} == {Kind.MATMUL}
    assert {result.reason for result in skipped} == {"no matrix unit."}
    for result in found:
        if isinstance(result, Measured):
            assert result.timing.time_s == pytest.approx(one_call_s(result.case))
            assert (result.allocated_bytes, result.reserved_bytes) == (
                (1000, 1250) if result.case.kind is Kind.LAYER else (None, None)
            )


def test_cases_keep_their_order() -> None:
    cases = [Case(Kind.DISPATCH, "add", "fp32", (size,)) for size in (3, 1, 2)]
    assert [result.case for result in measure(FakeBackend(), cases, 0.1)] == cases


def test_a_case_is_let_go_before_the_next_is_prepared() -> None:
    held: list[weakref.ref[object]] = []

    class Holding(FakeBackend):
        def work(self, case: Case) -> Work:
            assert all(reference() is None for reference in held), "two cases share the memory of the device"
            work = super().work(case)
            held.append(weakref.ref(work))
            return work

    assert len(list(measure(Holding(), default_cases(1, only=["vector"]), 0.01))) == 4

"""Timing of one operation until its rate is steady; the backend has the clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Protocol

from calibration.measurements.cases import Case
from documents.late_methods import dataclass
from documents.sentences import Sentence

BATCH_S = 0.05  # seconds of calls between clock readings: much longer than a reading, much shorter than a device's warm-up
MAX_CALLS = 100_000  # calls of one batch, at most
MAX_BATCHES = 20_000
METHOD = (
    "One operation at a time, called in batches of about {batch:g} s between which the device is waited for, for {seconds:g} s; "
    "time_s is the median call of the later half of that time, when clocks have settled, burst_time_s the fastest batch. "
    "Inputs are normal random numbers. With several ranks every batch counts with its slowest rank."
)

Work = Callable[[int], float]  # runs n calls, waits for the device, returns the seconds


class UnsupportedCaseError(Exception):
    """The device or its software cannot run a case; the message is one sentence."""


@dataclass(frozen=True)
class Prepared:
    """A case that is ready to run: its function, and whether that is one kernel."""

    work: Work
    kernel: str
    is_fused: bool = True
    memory: Callable[[], tuple[int, int]] | None = None  # allocated and reserved bytes at the peak


class Backend(Protocol):
    """A device with its software. All ranks must see the same seconds, since they decide together when to stop."""

    def prepare(self, case: Case) -> Prepared:
        """The case on the device; raises ``UnsupportedCaseError``."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, as ``METHOD`` defines them; ``spread_fraction`` is the range of the middle 80 % over the median."""

    num_calls: int
    elapsed_s: float
    time_s: float
    burst_time_s: float
    spread_fraction: float


@dataclass(frozen=True)
class Measured:
    """A case with its timing; ``allocated_bytes`` and ``reserved_bytes`` are from the framework's allocator, if it has one."""

    case: Case
    kernel: str
    is_fused: bool
    timing: Timing
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None


@dataclass(frozen=True)
class Skipped:
    """A case that did not run, with one sentence on the reason."""

    case: Case
    reason: str


def measure(backend: Backend, cases: Iterable[Case], seconds: float) -> Iterator[Measured | Skipped]:
    """Time the cases in turn and yield each result at once."""
    for case in cases:
        yield _result(backend, case, seconds)


def _result(backend: Backend, case: Case, seconds: float) -> Measured | Skipped:
    """Time one case. Its memory on the device is free afterwards."""
    try:
        prepared = backend.prepare(case)
        timing = sustained(prepared.work, seconds)
        allocated, reserved = prepared.memory() if prepared.memory else (None, None)
    except UnsupportedCaseError as error:
        return Skipped(case, str(error))
    return Measured(case, prepared.kernel, prepared.is_fused, timing, allocated, reserved)


def sustained(work: Work, seconds: float) -> Timing:
    """Time of a call when ``work`` runs for ``seconds``, at least one batch; raises ``UnsupportedCaseError``."""
    _checked(work(1))  # loads and compiles
    calls, took = 1, _checked(work(1))
    while took < BATCH_S / 2 and calls < MAX_CALLS:
        calls = min(MAX_CALLS, max(2 * calls, int(calls * min(BATCH_S / took, 100.0))))
        took = _checked(work(calls))
    batches = [took]
    elapsed = took
    while elapsed < seconds and len(batches) < MAX_BATCHES:
        batches.append(_checked(work(calls)))
        elapsed += batches[-1]
    each = [batch / calls for batch in batches]
    settled = sorted(_later_half(each))
    middle = median(settled)
    spread = _quantile(settled, 0.9) - _quantile(settled, 0.1)
    return Timing(calls * len(batches), elapsed, middle, min(each), spread / middle)


def _later_half(values: list[float]) -> list[float]:
    """Batches that ended in the second half of the time."""
    half, passed = sum(values) / 2.0, 0.0
    found = []
    for value in values:
        passed += value
        if passed > half:
            found.append(value)
    return found


def _quantile(ordered: list[float], fraction: float) -> float:
    return ordered[round(fraction * (len(ordered) - 1))]


def _checked(seconds: float) -> float:
    if not (math.isfinite(seconds) and seconds > 0.0):
        raise UnsupportedCaseError(Sentence("the clock says {} s for a batch, which no time is taken of.", seconds))
    return seconds


def method(seconds: float) -> Mapping[str, str | float]:
    """The method of the timing, for the file."""
    return {"seconds": seconds, "description": METHOD.format(batch=BATCH_S, seconds=seconds)}

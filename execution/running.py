"""What one rank's run shares: its meters, and the kernels that stood in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from execution.meters import Calls, Live, Meter

live = Live()
meter = Meter(live)
calls = Calls()
kernels: Counter[str] = Counter()
answers: Counter[str] = Counter()  # what was said of the device that is not there
routing: dict[str, Any] = {}  # of the model: experts, experts a token, rows a rank receives of its peers


class UnknownKernelError(Exception):
    """The framework calls a kernel of which nobody has written down what it keeps."""


def used(name: str) -> None:
    """Note a kernel."""
    kernels[name] += 1


def answer(what: str, value: str) -> str:
    """Say something of the device that is not there."""
    answers[f"{what} {value}"] += 1
    return value


def enter(phase: str) -> str:
    """Name what runs from now on; the phase before."""
    before, meter.phase, calls.phase = meter.phase, phase, phase
    return before

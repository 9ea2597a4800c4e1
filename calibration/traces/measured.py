"""A measured step, in one form for all profilers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

TOGETHER = "+"  # joins parts that a trace does not distinguish


class TraceError(InputError):
    """A file without a step trace, or without the requested step; the message is one sentence without the file's name."""


class Part(StrEnum):
    """The parts of a step that traces distinguish; each kind of trace has some of these."""

    PASSES = "passes"  # forward, backward and recompute, with their waits
    COMPUTE = "compute"
    MATMUL = "matmul"
    ATTENTION = "attention"
    VECTOR = "vector"
    OTHER_KERNELS = "other_kernels"
    CONTENTION = "contention"
    COMMUNICATION = "communication"
    TP_COMM = "tp_comm"
    CP_COMM = "cp_comm"
    EP_COMM = "ep_comm"
    DP_COMM = "dp_comm"
    PIPELINE = "pipeline"
    HOST_TRANSFER = "host_transfer"
    OPTIMIZER = "optimizer"
    STEP_OVERHEAD = "step_overhead"
    FREE = "free"


KERNEL_PARTS = (Part.MATMUL, Part.ATTENTION, Part.VECTOR, Part.OTHER_KERNELS)
COMMUNICATION_PARTS = (Part.TP_COMM, Part.CP_COMM, Part.EP_COMM, Part.DP_COMM, Part.PIPELINE)


class Source(StrEnum):
    """The program that wrote the trace."""

    STEP_TABLE = "step_trace_time.csv"
    TORCH = "torch.profiler"
    TORCH_NPU = "torch_npu.profiler"
    OWN = "meshplan"


# The parts that each kind of trace distinguishes; a moment belongs to the first part that is busy in it.
VOCABULARY: Mapping[Source, tuple[Part, ...]] = {
    Source.STEP_TABLE: (Part.COMPUTE, Part.COMMUNICATION, Part.PIPELINE, Part.FREE),
    Source.TORCH: (*KERNEL_PARTS, *COMMUNICATION_PARTS, Part.HOST_TRANSFER, Part.FREE),
    Source.TORCH_NPU: (*KERNEL_PARTS, *COMMUNICATION_PARTS, Part.HOST_TRANSFER, Part.FREE),
    Source.OWN: (
        Part.PASSES,
        Part.CONTENTION,
        Part.EP_COMM,
        Part.HOST_TRANSFER,
        Part.DP_COMM,
        Part.OPTIMIZER,
        Part.STEP_OVERHEAD,
        Part.PIPELINE,
    ),
}


@dataclass(frozen=True)
class UnknownKernel:
    """A kernel of unknown kind, with all its calls in the step. [s]"""

    name: str
    count: int
    time_s: float


@dataclass(frozen=True)
class MeasuredStep:
    """One step of one rank. [s]

    ``exposed_s`` sums to ``step_time_s``; its keys are parts, or several joined by ``TOGETHER`` if the trace does not
    distinguish them. ``masked_s`` overlapped compute or another part and is not in that sum. ``step_times_s`` has every step
    in the file by number, ``ranks`` the ranks in the file.
    """

    source: Source
    rank: int | None
    step: int | None
    step_time_s: float
    exposed_s: Mapping[str, float]
    masked_s: Mapping[str, float]
    step_times_s: Mapping[int, float] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    unknown: tuple[UnknownKernel, ...] = ()
    notes: tuple[str, ...] = ()


def chosen(what: str, wanted: int | None, known: Iterable[int]) -> int | None:
    """The requested value; ``TraceError`` if it is unknown, None if none was requested."""
    listed = sorted(known)
    if wanted is None or wanted in listed:
        return wanted
    if not listed:
        raise TraceError(Sentence("does not number its {}s; leave --{} out.", what, what))
    shown = joined(", ", (str(each) for each in listed[:20])) + (", ..." if len(listed) > 20 else "")
    raise TraceError(Sentence("holds no {} {}; it has {}.", what, wanted, shown))


def median_step(times_s: Mapping[int, float]) -> int:
    """The step whose time is the median of all, the lower one of two."""
    ordered = sorted(times_s, key=lambda step: (times_s[step], step))
    return ordered[(len(ordered) - 1) // 2]

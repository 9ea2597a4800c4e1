"""The events of a Chrome trace, which profilers write as JSON, plain or compressed by gzip."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from calibration.traces.measured import TraceError
from documents.bounds import TRACE_BYTES
from documents.reading import opened
from documents.sentences import Sentence

MAX_EVENTS = 10_000_000
MAX_KEPT = 2_000_000  # events of all devices and steps; a step of a thousand micro batches has about as many
_SPACE = re.compile(r"[ \t\n\r,]*")
_MAX_TIME_US, _MAX_DIGITS = 10**18, 40
# Events of the host: not used here, and most of a trace.
_HOST = frozenset(
    {
        "cpu_op",
        "python_function",
        "cuda_runtime",
        "cuda_driver",
        "ac2g",
        "fwdbwd",
        "overhead",
        "async_cpu_to_gpu",
        "cpu_instant_event",
    }
)
# Arguments that are kept: the process, and the facts about a collective from torch.profiler and HCCL.
_ARGUMENTS = (
    "device",
    "operation",
    "rank_size",
    Sentence("Collective name"),
    Sentence("Group size"),
    Sentence("Process Group Description"),
    Sentence("Process Group Name"),
    Sentence("Process Group Ranks"),
    Sentence("Task Type"),
)
_STEP_MARK = "ProfilerStep#"
_DECODER = json.JSONDecoder()


class Event(NamedTuple):
    """A bar of a timeline, in seconds from the trace's origin."""

    name: str
    category: str
    process: Any
    thread: Any
    start_s: float
    end_s: float
    arguments: Mapping[str, Any]


@dataclass
class Trace:
    """Bars, names of processes and threads, labels of processes, and the rank in the file."""

    events: list[Event] = field(default_factory=list)
    processes: dict[Any, str] = field(default_factory=dict)
    threads: dict[Any, str] = field(default_factory=dict)  # names by (process, thread)
    labels: dict[Any, str] = field(default_factory=dict)
    rank: int | None = None
    origin_ns: int | None = None  # the start of the first bar: a double does not hold nanoseconds since 1970


def read_bytes(path: Path) -> bytes:
    """The file, unpacked; ``TraceError`` beyond ``TRACE_BYTES``, ``InputError`` for a device or a pipe."""
    try:
        with opened(path) as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            content = (gzip.GzipFile(fileobj=file) if packed else file).read(TRACE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceError(Sentence("is no whole gzip file.")) from None
    if len(content) > TRACE_BYTES:
        raise TraceError(Sentence("holds more than {} MiB; profile one step, without stacks.", TRACE_BYTES >> 20))
    return content


def read_trace(text: str) -> Trace:
    """Read a list of events, or an object with ``traceEvents``; ``TraceError`` for anything else, or too many events."""
    trace = Trace()
    try:
        for count, event in enumerate(_events(text, trace), start=1):
            if count > MAX_EVENTS:
                raise TraceError(Sentence("holds more than {:,} events; profile one step.", MAX_EVENTS))
            if isinstance(event, dict):
                _take(event, trace)
    except json.JSONDecodeError as error:
        raise TraceError(
            Sentence("is not JSON: {} at line {}, column {}.", Sentence.whole(error.msg), error.lineno, error.colno)
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(Sentence("is not JSON that can be read: too deep, or a number too long.")) from None
    return trace


def _events(text: str, trace: Trace) -> Iterator[Any]:
    """Yield events one by one, so that only one is in memory; a viewer's trace may lack its last bracket."""
    position = _after(text, 0)
    if text[position : position + 1] == "[":
        yield from _listed(text, position)
        return
    if text[position : position + 1] != "{":
        raise TraceError(Sentence("is no trace: it holds neither a list of events nor an object with `traceEvents`."))
    position, found = _after(text, position + 1), False
    while text[position : position + 1] not in ("}", ""):
        key, position = _DECODER.raw_decode(text, position)
        position = _after(text, position)
        if text[position : position + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
        position = _after(text, position + 1)
        if key == "traceEvents" and text[position : position + 1] == "[":
            found = True
            position = yield from _listed(text, position)
        else:
            value, position = _DECODER.raw_decode(text, position)
            if key == "distributedInfo" and isinstance(value, dict) and type(value.get("rank")) is int:
                trace.rank = value["rank"]
        position = _after(text, position)
    if not found:
        raise TraceError(Sentence("is no trace: it has no list `traceEvents`."))


def _listed(text: str, position: int) -> Generator[Any, None, int]:
    position = _after(text, position + 1)
    while text[position : position + 1] != "]":
        value, position = _DECODER.raw_decode(text, position)
        yield value
        position = _after(text, position)
    return position + 1


def _after(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _take(event: Mapping[str, Any], trace: Trace) -> None:
    phase, process, thread = event.get("ph"), _key(event.get("pid")), _key(event.get("tid"))
    arguments = event.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    if phase == "M":
        name = event.get("name")
        if name == "process_name":
            trace.processes[process] = str(arguments.get("name", ""))
        elif name == "thread_name":
            trace.threads[process, thread] = str(arguments.get("name", ""))
        elif name == "process_labels":
            trace.labels[process] = str(arguments.get("labels", ""))
        return
    if phase != "X":
        return
    name, category = str(event.get("name", "")), str(event.get("cat", "")).lower()
    if category in _HOST and not name.startswith(_STEP_MARK):
        return
    start_ns, length_ns = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur"))
    if start_ns is None or length_ns is None or length_ns < 0:
        raise TraceError(Sentence("holds an event {!r} whose `ts` and `dur` are no times in microseconds.", name[:60]))
    if len(trace.events) >= MAX_KEPT:
        raise TraceError(Sentence("holds more than {:,} events of devices; profile one step.", MAX_KEPT))
    trace.origin_ns = start_ns if trace.origin_ns is None else trace.origin_ns
    since_ns = start_ns - trace.origin_ns
    kept = {key: arguments[key] for key in _ARGUMENTS if key in arguments}
    trace.events.append(Event(sys.intern(name), category, process, thread, since_ns * 1e-9, (since_ns + length_ns) * 1e-9, kept))


def _key(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


def _nanoseconds(value: Any) -> int | None:
    """Nanoseconds from microseconds, which torch_npu writes as text to keep their digits."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and len(value) > _MAX_DIGITS)
    ):
        return None
    try:
        number = Decimal(value)
        return round(number * 1000) if abs(number) <= _MAX_TIME_US else None
    except (ArithmeticError, ValueError):
        return None

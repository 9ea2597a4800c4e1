"""A step from the timelines of torch.profiler, torch_npu.profiler and ``meshplan estimate --timeline``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from calibration.traces.events import Event, Trace, read_bytes, read_trace
from calibration.traces.groups import Layout, hccl_group, nccl_group, operation_of, parts_of
from calibration.traces.intervals import NONE, Spans, merged, shared_out, within
from calibration.traces.kernel_names import CORES, gpu_part, is_hccl, is_nccl, npu_part
from calibration.traces.measured import (
    COMMUNICATION_PARTS,
    KERNEL_PARTS,
    TOGETHER,
    VOCABULARY,
    MeasuredStep,
    Part,
    Source,
    TraceError,
    UnknownKernel,
    chosen,
    median_step,
)
from calibration.traces.step_table import read_step_table
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
_OWN_RANK = re.compile(r"pipeline rank (\d{1,9})$")
_LABEL = re.compile(r"(?:NPU|GPU) (\d{1,6})$")
_HARDWARE, _LANES, _BIG_OPERATIONS = (
    Sentence("ascend hardware"),
    ("communication", "hccl"),
    re.compile(r"group .*communication", re.IGNORECASE),
)
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_ACROSS_HOST = re.compile(r"htod|dtoh|host to device|device to host", re.IGNORECASE)
_OWN_PARTS = {
    "compute": Part.PASSES,
    "expert_communication": Part.EP_COMM,
    "p2p": Part.PIPELINE,
    "swap": Part.HOST_TRANSFER,
    "data_parallel": Part.DP_COMM,
}
_OWN_KINDS = {"contention": Part.CONTENTION, "optimizer": Part.OPTIMIZER, "step_overhead": Part.STEP_OVERHEAD}


def read_step(path: Path, layout: Layout, rank: int | None = None, step: int | None = None) -> MeasuredStep:
    """The step in a file; ``layout`` has the groups of the strategy.

    ``rank`` and ``step`` choose if a file has several; the defaults are the busiest rank and the step of median time.
    Raises ``TraceError`` if the file has no such step, ``OSError`` if it cannot be read.
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TraceError(Sentence("is not text in UTF-8.")) from None
    del content
    if text.lstrip()[:1] not in ("{", "["):
        return read_step_table(text.splitlines(), rank, step)
    trace = read_trace(text)
    del text
    names = {name.lower() for name in trace.processes.values()}
    if any(_OWN_RANK.match(name) for name in names):
        return own_step(trace, rank, step)
    if _HARDWARE in names:
        activities, told = _npu_activity(trace)
        found = _profiled(activities, trace, Source.TORCH_NPU, layout, rank, step)
        return replace(found, notes=(*found.notes, *told))
    if any(event.category in _DEVICE for event in trace.events):
        return _profiled(_gpu_activity(trace), trace, Source.TORCH, layout, rank, step)
    raise TraceError(
        Sentence("holds no work of a device: neither kernels of torch.profiler, nor a lane Ascend Hardware, nor our own ranks.")
    )


@dataclass(frozen=True)
class _Activity:
    """A bar of a device: its ``part``, or operation and group of a collective."""

    event: Event
    device: int
    part: Part | None
    call: tuple[str, Any] | None = None


def _device(trace: Trace, process: Any) -> int:
    """A device's number: from the label of its process, or the process number if that is one."""
    found = _LABEL.match(trace.labels.get(process, ""))
    return int(found[1]) if found else process if isinstance(process, int) and 0 <= process < 1000 else 0


def _gpu_activity(trace: Trace) -> list[_Activity]:
    found = []
    for event in trace.events:
        if event.category not in _DEVICE:
            continue
        device = event.arguments.get("device")
        device = device if type(device) is int else _device(trace, event.process)
        if event.category == "kernel" and is_nccl(event.name):
            named = str(event.arguments.get(Sentence("Collective name"), ""))
            operation = operation_of(named) or operation_of(event.name)
            found.append(_Activity(event, device, None, (operation, nccl_group(event.arguments))))
        elif event.category == "kernel":
            found.append(_Activity(event, device, gpu_part(event.name)))
        else:
            crosses = _ACROSS_HOST.search(event.name) is not None
            found.append(_Activity(event, device, Part.HOST_TRANSFER if crosses else Part.VECTOR))
    return found


def _npu_activity(trace: Trace) -> tuple[list[_Activity], list[str]]:
    """Kernels by core, and collectives from their own lane; a sentence on bars that are no work, such as waits and records."""
    found = []
    others: dict[str, tuple[int, float]] = {}
    lanes = {process for process, name in trace.processes.items() if name.lower() in _LANES}
    has_lane = any(event.process in lanes for event in trace.events)
    for event in trace.events:
        process = trace.processes.get(event.process, "").lower()
        device = _device(trace, event.process)
        if event.process in lanes:
            if _BIG_OPERATIONS.search(trace.threads.get((event.process, event.thread), "")) or is_hccl(event.name):
                call = (operation_of(event.name), hccl_group(event.name, event.arguments))
                found.append(_Activity(event, device, None, call))
        elif process == _HARDWARE:
            core = str(event.arguments.get(Sentence("Task Type"), "")).upper()
            if is_hccl(event.name):
                if not has_lane:
                    found.append(
                        _Activity(event, device, None, (operation_of(event.name), hccl_group(event.name, event.arguments)))
                    )
            elif core in CORES or not core:
                found.append(_Activity(event, device, npu_part(event.name, core)))
            elif _ACROSS_HOST.search(str(event.arguments.get("operation", ""))):
                found.append(_Activity(event, device, Part.HOST_TRANSFER))
            else:
                count, time_s = others.get(core, (0, 0.0))
                others[core] = (count + 1, time_s + event.end_s - event.start_s)
    listed = joined(
        ", ", (Sentence("{} ({:,}, {:,.3g} ms)", core, count, time_s * 1e3) for core, (count, time_s) in sorted(others.items()))
    )
    return found, [Sentence("Tasks of the whole trace that are no work of a core: {}.", listed)] if listed else []


def _profiled(
    activities: Sequence[_Activity], trace: Trace, source: Source, layout: Layout, rank: int | None, step: int | None
) -> MeasuredStep:
    """One step of one device; time in which nothing runs is free."""
    if not activities:
        raise TraceError(Sentence("holds no kernel of a device; profile with the device's activities."))
    ranks = sorted({activity.device for activity in activities})
    if len(ranks) == 1 and trace.rank is not None:  # a device's number on its node is not its rank in the job
        ranks = [trace.rank]
        activities = [_Activity(each.event, trace.rank, each.part, each.call) for each in activities]
    wanted = chosen("rank", rank, ranks)
    if wanted is None:
        wanted = max(ranks, key=lambda known: sum(_length(a) for a in activities if a.device == known and a.part in KERNEL_PARTS))
    activities = [each for each in activities if each.device == wanted]
    windows, notes = _windows(trace, activities)
    chosen_step = chosen("step", step, windows)
    times_s = {number: end - start for number, (start, end) in windows.items()}
    if chosen_step is None and windows:
        chosen_step = median_step(times_s)
    whole = (min(each.event.start_s for each in activities), max(each.event.end_s for each in activities))
    start_s, end_s = whole if chosen_step is None else windows[chosen_step]
    inside = [each for each in activities if each.event.end_s > start_s and each.event.start_s < end_s]
    if not inside or end_s <= start_s:
        raise TraceError(
            Sentence(
                "holds no kernel in {}; profile a whole step.", "it" if chosen_step is None else Sentence("step {}", chosen_step)
            )
        )
    keys = parts_of((each.call for each in inside if each.call is not None), layout)
    keyed = [(each.part if each.call is None else keys[each.call], each.event) for each in inside]
    exposed, masked, busy_s = shared_out(_in_order(keyed, VOCABULARY[source], start_s, end_s))
    exposed = {**exposed, Part.FREE: max(end_s - start_s - busy_s, 0.0)}
    return MeasuredStep(
        source=source,
        rank=wanted,
        step=chosen_step,
        step_time_s=end_s - start_s,
        exposed_s=exposed,
        masked_s={key: time_s for key, time_s in masked.items() if time_s > 0.0},
        step_times_s=times_s,
        ranks=tuple(ranks),
        unknown=_unknown(each.event for each in inside if each.part is Part.OTHER_KERNELS),
        notes=(*notes, *_group_notes(inside, keys)),
    )


def _length(activity: _Activity) -> float:
    return activity.event.end_s - activity.event.start_s


def _windows(trace: Trace, activities: Sequence[_Activity]) -> tuple[dict[int, tuple[float, float]], list[str]]:
    """Windows of the steps by number: until the next step begins on the device's own clock, or as long as the host's step.

    The host runs ahead of its device by the same time in every step, so a window as long as a step has one step's kernels.
    """
    marks = [(int(found[1]), event) for event in trace.events if (found := _STEP.match(event.name))]
    of_device = [(number, event) for number, event in marks if event.category == "gpu_user_annotation"]
    spans: dict[int, tuple[float, float]] = {}
    for number, event in of_device or marks:
        known = spans.get(number, (event.start_s, event.end_s))
        spans[number] = (min(known[0], event.start_s), max(known[1], event.end_s))
    if not spans:
        return {}, [
            Sentence(
                "The trace marks no steps (`ProfilerStep#N`): all of it is taken as one step, from its first to its last kernel."
            )
        ]
    if not of_device:
        return spans, [
            Sentence(
                "Steps are those of the host, which runs ahead of the device: a step's window may hold the end of the one before."
            )
        ]
    ordered = sorted(spans)
    for number, following in pairwise(ordered):
        spans[number] = (spans[number][0], max(spans[following][0], spans[number][0]))
    return spans, []


def _in_order(
    keyed: Iterable[tuple[str | None, Event]], vocabulary: Sequence[Part], start_s: float, end_s: float
) -> list[tuple[str, Spans]]:
    """Spans of each key inside the window: compute first, then communication, then waits."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for key, event in keyed:
        spans.setdefault(str(key), []).append((event.start_s, event.end_s))
    order = {str(part): place for place, part in enumerate(vocabulary)}
    place = {key: max(order.get(each, len(order)) for each in key.split(TOGETHER)) for key in spans}
    return [(key, within(np.array(spans[key]), start_s, end_s)) for key in sorted(spans, key=lambda key: (place[key], key))]


def _unknown(events: Iterable[Event]) -> tuple[UnknownKernel, ...]:
    """Unknown kernels, those with most time first."""
    found: dict[str, tuple[int, float]] = {}
    for event in events:
        count, time_s = found.get(event.name, (0, 0.0))
        found[event.name] = (count + 1, time_s + event.end_s - event.start_s)
    kernels = [UnknownKernel(name, count, time_s) for name, (count, time_s) in found.items()]
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.time_s, kernel.name)))


def _group_notes(inside: Sequence[_Activity], keys: Mapping[tuple[str, Any], str]) -> list[str]:
    """Sentences on collectives whose part is ambiguous."""
    open_s: dict[str, dict[str, float]] = {}
    for each in inside:
        key = keys[each.call] if each.call is not None else ""
        if each.call is not None and (TOGETHER in key or key == Part.COMMUNICATION):
            name = each.call[0] or each.event.name[:60]
            of_key = open_s.setdefault(key, {})
            of_key[name] = of_key.get(name, 0.0) + _length(each)
    return [
        Sentence(
            "Not told apart: {} may serve {}; the trace does not say whose groups these are.",
            joined(", ", (Sentence("{} ({:,.3g} ms)", name, time_s * 1e3) for name, time_s in sorted(found.items()))),
            _named(key),
        )
        for key, found in open_s.items()
    ]


def _named(key: str) -> str:
    return joined(" or ", (part.removesuffix("_comm").upper() for part in key.split(TOGETHER)))


def own_step(trace: Trace, rank: int | None, step: int | None = None) -> MeasuredStep:
    """A step that this program simulated: waits inside passes belong to them, time without a bar to the pipeline."""
    numbered = {process: int(match[1]) for process, name in trace.processes.items() if (match := _OWN_RANK.match(name))}
    chosen("step", step, ())
    wanted = chosen("rank", rank, numbered.values())
    if not trace.events:
        raise TraceError(Sentence("holds no bar."))
    step_time_s = max(event.end_s for event in trace.events) + (trace.origin_ns or 0) * 1e-9
    found = {
        number: _own_parts([event for event in trace.events if event.process == process], step_time_s)
        for process, number in numbered.items()
    }
    if wanted is None:
        wanted = min(found, key=lambda number: (found[number][0][Part.PIPELINE], number))
    exposed, masked = found[wanted]
    return MeasuredStep(Source.OWN, wanted, None, step_time_s, exposed, masked, {}, tuple(sorted(found)))


def _own_parts(events: Sequence[Event], step_time_s: float) -> tuple[dict[str, float], dict[str, float]]:
    spans: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        part = _OWN_KINDS.get(event.name) or _OWN_PARTS.get(event.category)
        if part is None:
            raise TraceError(Sentence("holds a bar {!r} that no timeline of this version has.", event.name[:60]))
        spans.setdefault(part, []).append((event.start_s, event.end_s))
    order = [(part, merged(np.array(spans[part])) if part in spans else NONE) for part in VOCABULARY[Source.OWN][:-1]]
    exposed, masked, busy_s = shared_out(order)
    exposed = {**exposed, Part.PIPELINE: max(step_time_s - busy_s, 0.0)}
    return exposed, {part: masked[part] for part in COMMUNICATION_PARTS if masked.get(part, 0.0) > 0.0}

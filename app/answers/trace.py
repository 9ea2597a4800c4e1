"""Chrome's trace-event JSON, which Perfetto and MindStudio Insight open: a process a rank, a thread a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from app.answers.simulation import PlayedStep
from cost_models.simulation.task_bars import Kind, Stream
from cost_models.simulation.timeline import Timeline
from documents.sentences import Sentence


def trace_text(played: PlayedStep) -> str:
    """Complete events (`X`) in microseconds from 0, with nanoseconds, and counters (`C`) of each rank's memory."""
    events = [*_names(played.timeline), *_bars(played.timeline), *_counters(played)]
    return '{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(events) + "\n]}\n"


def _names(shown: Timeline) -> Iterator[str]:
    bars = shown.bars
    used = np.unique(np.stack([bars.rank, bars.stream]), axis=1).T.tolist()
    for rank in range(shown.num_ranks):
        yield _metadata("process_name", rank, 0, name=Sentence("pipeline rank {}", rank))
        yield _metadata("process_sort_index", rank, 0, sort_index=rank)
    for rank, stream in used:
        yield _metadata("thread_name", rank, stream, name=Stream(stream).label.replace("_", " "))
        yield _metadata("thread_sort_index", rank, stream, sort_index=stream)


def _metadata(what: str, rank: int, stream: int, **arguments: str | int) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": rank, "tid": stream, "args": arguments})


def _bars(shown: Timeline) -> Iterator[str]:
    """Bars in whole nanoseconds, so that rounding by a viewer never makes neighbours overlap; the last end is exact."""
    bars = shown.bars
    start_ns, end_ns = (np.rint(column * 1e9).astype(np.int64) for column in (bars.start_s, bars.end_s))
    last = bars.end_s == bars.end_s.max()
    length_us = np.where(last, shown.step_time_s * 1e6 - start_ns / 1e3, (end_ns - start_ns) / 1e3)
    heads = [f'{{"ph":"X","name":"{kind.label}","cat":"{stream.label}","pid":' for kind in Kind for stream in Stream]
    head = bars.kind * len(Stream) + bars.stream
    columns = (head, bars.rank, bars.stream, start_ns / 1e3, length_us, bars.chunk, bars.micro_batch)
    for code, rank, stream, start, length, chunk, micro_batch in zip(*(column.tolist() for column in columns), strict=True):
        arguments = f'"chunk":{chunk},"micro_batch":{micro_batch}' if micro_batch >= 0 else ""
        yield f'{heads[code]}{rank},"tid":{stream},"ts":{start},"dur":{length},"args":{{{arguments}}}}}'


def _counters(played: PlayedStep) -> Iterator[str]:
    for rank, curve in enumerate(played.memory):
        for time_s, allocated in zip(curve.times_s, curve.allocated_bytes, strict=True):
            yield f'{{"ph":"C","name":"allocated memory","pid":{rank},"ts":{time_s * 1e6},"args":{{"bytes":{allocated}}}}}'

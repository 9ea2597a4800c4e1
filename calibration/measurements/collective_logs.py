"""Reads logs of the collective benchmarks nccl-tests and HCCL Test as points of a measured curve."""

from __future__ import annotations

import math
import re

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

MAX_LOG_BYTES = 2**20
MAX_POINTS = 200
MAX_MESSAGE_BYTES, MAX_TIME_US = 2.0**50, 1e9
OPS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
_SHARDED = ("all_gather", "reduce_scatter")  # nccl-tests print the whole message of gathers and scatters, a curve has the shard
_HCCL = re.compile(r"^\s*(\d+)\s*\|\s*([\d.]+)\s*\|\s*[\d.]+\s*\|\s*(\w+)\s*$")
# bytes, elements, type, [reduction, [root,]] then time, algorithm and bus bandwidth, out of place [nccl-tests, PERFORMANCE.md]
_NCCL = re.compile(r"^\s*(\d+)\s+\d+\s+[a-z]\w*\s+(?:[a-z]\w*\s+)?(?:-?\d+\s+)?(\d+(?:\.\d+)?)\s+(\d+\.\d+)\s+\d+\.\d+")


class CollectiveLogError(InputError):
    """A log without a curve; the message is one sentence."""


@dataclass(frozen=True)
class CollectiveLog:
    """Times of one collective in increasing size; ``message_bytes`` as ``CollectiveCurve`` of hardware profiles counts them."""

    op: str
    group_size: int
    message_bytes: tuple[float, ...]
    time_us: tuple[float, ...]


def parse_collective_log(text: str, op: str, group_size: int) -> CollectiveLog:
    """The points of a log of nccl-tests or HCCL Test. Their output does not name the operation, and not always the ranks.

    A size that occurs twice counts with its shorter time; sizes whose result was wrong are left out. Raises
    ``CollectiveLogError``.
    """
    if op not in OPS:
        raise CollectiveLogError(Sentence("operation {!r} is none of {}.", op, joined(", ", OPS)))
    shards = group_size if op in _SHARDED else 1
    points: dict[float, float] = {}
    for line in text.splitlines():
        if found := _HCCL.match(line):
            if op in _SHARDED:
                raise CollectiveLogError(
                    Sentence("HCCL Test does not say whether its data_size of {} is the shard; give all_reduce.", op)
                )
            if found[3] != "failed":
                _add(points, float(found[1]), float(found[2]))
        elif found := _NCCL.match(line):
            _add(points, float(found[1]) / shards, float(found[2]))
    if len(points) < 2:
        raise CollectiveLogError(
            Sentence("holds {} lines of nccl-tests or HCCL Test with a size and a time; a curve needs two.", len(points))
        )
    if len(points) > MAX_POINTS:
        raise CollectiveLogError(Sentence("holds {} sizes; at most {} are read.", len(points), MAX_POINTS))
    sizes = sorted(points)
    return CollectiveLog(op, group_size, tuple(sizes), tuple(points[size] for size in sizes))


def _add(points: dict[float, float], message_bytes: float, time_us: float) -> None:
    if not (0.0 < message_bytes <= MAX_MESSAGE_BYTES and math.isfinite(time_us) and 0.0 < time_us <= MAX_TIME_US):
        return  # a size of zero bytes, or a time below the resolution of the log
    points[message_bytes] = min(time_us, points.get(message_bytes, math.inf))

"""Cost of saving and loading a plan's state, and the interval between checkpoints."""

from __future__ import annotations

import math

from documents.late_methods import dataclass


@dataclass(frozen=True)
class CheckpointCost:
    """Seconds of one checkpoint: the job waits ``blocking_s``; storage is then busy for ``drain_s`` in the background.

    ``load_s`` is the time to read it back. All devices write ``total_bytes``; the device that writes most writes
    ``device_bytes``.
    """

    total_bytes: float
    device_bytes: float
    blocking_s: float
    drain_s: float
    load_s: float

    @property
    def least_interval_s(self) -> float:
        """Shortest useful time between checkpoints; with less, two would overlap in storage."""
        return self.drain_s


def checkpoint_cost(
    total_bytes: float,
    device_bytes: float,
    host_link_bytes_per_s: float,
    write_bytes_per_s: float,
    read_bytes_per_s: float,
    *,
    asynchronous: bool,
    fixed_s: float = 0.0,
) -> CheckpointCost:
    """Cost of one checkpoint of these bytes.

    An asynchronous checkpoint blocks while each device copies its share to the host, and is written from there. A synchronous one
    blocks until storage has everything [mindcluster-resume].

    Parameters
    ----------
    total_bytes
        Weights, master weights and moments of the whole model, once.
    device_bytes
        Share of the device that writes most.
    host_link_bytes_per_s
        From a device to its host.
    write_bytes_per_s, read_bytes_per_s
        Bandwidth of the storage for all devices together.
    fixed_s
        Blocking time that does not depend on the bytes: planning and synchronising a save.
    """
    staging_s, writing_s = device_bytes / host_link_bytes_per_s, total_bytes / write_bytes_per_s
    blocking_s = fixed_s + (staging_s if asynchronous else max(staging_s, writing_s))
    return CheckpointCost(
        total_bytes, device_bytes, blocking_s, writing_s if asynchronous else 0.0, total_bytes / read_bytes_per_s
    )


def young_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful seconds between checkpoints by Young's rule, sqrt(2 C M) [young1974].

    C is ``blocking_s`` and M is ``mtbf_s``, the mean time between failures that lose work.
    """
    return math.sqrt(2.0 * blocking_s * mtbf_s)


def daly_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful seconds between checkpoints by Daly's higher-order rule [daly2006]; arguments as in ``young_interval_s``.

    It is M itself if a checkpoint takes 2 M or more.
    """
    if math.isinf(mtbf_s):
        return math.inf
    if blocking_s >= 2.0 * mtbf_s:
        return mtbf_s
    half = blocking_s / (2.0 * mtbf_s)
    return young_interval_s(blocking_s, mtbf_s) * (1.0 + math.sqrt(half) / 3.0 + half / 9.0) - blocking_s


def best_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful seconds between checkpoints that deliver most under random failures: exact; Young and Daly approximate it.

    The root x = tau / M of (1 - x) exp(x + C / M) = 1, by bisection; recovery does not change it. Arguments as in
    ``young_interval_s``. The interval is 0 for free checkpoints, and infinite if no failure loses work.
    """
    if math.isinf(mtbf_s):
        return math.inf
    share = blocking_s / mtbf_s
    if share <= 0.0:
        return 0.0
    # y = 1 - x: ln y - y + 1 + share = 0 has its root in (0, 1); bisection on ln y stays accurate for tiny y.
    low, high = -(1.0 + share) - 1.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle - math.exp(middle) + 1.0 + share > 0.0:
            high = middle
        else:
            low = middle
    return mtbf_s * -math.expm1((low + high) / 2.0)

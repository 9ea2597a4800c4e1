"""What saving and loading a plan's state costs."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointCost:
    """Seconds of one checkpoint: the job waits ``blocking_s``; storage is busy for ``drain_s`` more in the background.

    ``load_s`` is reading it back. ``total_bytes`` are written, ``device_bytes`` by the device that writes most.
    """

    total_bytes: float
    device_bytes: float
    blocking_s: float
    drain_s: float
    load_s: float

    @property
    def least_interval_s(self) -> float:
        """Useful time below which the next checkpoint would meet the one before it in storage."""
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
    """What a checkpoint of these bytes costs.

    An asynchronous one blocks while each device copies its share to the host, and drains from there; a synchronous one blocks
    until all is in storage [mindcluster-resume].

    Parameters
    ----------
    total_bytes : float, bytes
        Weights, master weights and moments of the whole model, once.
    device_bytes : float, bytes
        The share of the device that writes most of them.
    host_link_bytes_per_s : float, bytes a second
        From a device to its host.
    write_bytes_per_s : float, bytes a second
        Of storage, all devices together.
    read_bytes_per_s : float, bytes a second
        The same, reading.
    asynchronous : bool
        Whether training goes on while storage is written.
    fixed_s : float, seconds
        What blocks whatever the bytes: planning and synchronising a save.

    Returns
    -------
    CheckpointCost
    """
    staging_s, writing_s = device_bytes / host_link_bytes_per_s, total_bytes / write_bytes_per_s
    blocking_s = fixed_s + (staging_s if asynchronous else max(staging_s, writing_s))
    return CheckpointCost(
        total_bytes, device_bytes, blocking_s, writing_s if asynchronous else 0.0, total_bytes / read_bytes_per_s
    )


def young_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful time between checkpoints by Young's rule, sqrt(2 C M) [young1974].

    Parameters
    ----------
    blocking_s : float, seconds
        C, that the job waits for a checkpoint.
    mtbf_s : float, seconds
        M, mean time between failures that lose work.

    Returns
    -------
    float, seconds
    """
    return math.sqrt(2.0 * blocking_s * mtbf_s)


def daly_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful time between checkpoints by Daly's higher-order rule [daly2006].

    Parameters
    ----------
    blocking_s : float, seconds
        C, that the job waits for a checkpoint.
    mtbf_s : float, seconds
        M, mean time between failures that lose work.

    Returns
    -------
    float, seconds
        M itself where a checkpoint takes 2 M or more.
    """
    if math.isinf(mtbf_s):
        return math.inf
    if blocking_s >= 2.0 * mtbf_s:
        return mtbf_s
    half = blocking_s / (2.0 * mtbf_s)
    return young_interval_s(blocking_s, mtbf_s) * (1.0 + math.sqrt(half) / 3.0 + half / 9.0) - blocking_s


def best_interval_s(blocking_s: float, mtbf_s: float) -> float:
    """Useful time between checkpoints that delivers most under random failures: exact, where Young and Daly approximate.

    The root x = tau / M of (1 - x) exp(x + C / M) = 1, by bisection; recovery does not move it.

    Parameters
    ----------
    blocking_s : float, seconds
        C, that the job waits for a checkpoint.
    mtbf_s : float, seconds
        M, mean time between failures that lose work; infinite where none does.

    Returns
    -------
    float, seconds
        0 for checkpoints that are free, infinite where no failure loses work.
    """
    if math.isinf(mtbf_s):
        return math.inf
    share = blocking_s / mtbf_s
    if share <= 0.0:
        return 0.0
    # y = 1 - x: ln y - y + 1 + share = 0 has its root in (0, 1); bisection on ln y keeps its digits where y is tiny.
    low, high = -(1.0 + share) - 1.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle - math.exp(middle) + 1.0 + share > 0.0:
            high = middle
        else:
            low = middle
    return mtbf_s * -math.expm1((low + high) / 2.0)

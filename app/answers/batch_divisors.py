"""Warning about a global batch that shares few divisors with the number of devices."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from app.jobs.job import Job
from documents.sentences import Sentence

_NEAR_FRACTION = 0.05  # of the batch: another one within it trains much the same
_TIMES_MORE = 8  # times the common divisor from which another batch is named


def with_note_on_batch(job: Job) -> Job:
    """The job of a search, with a warning if a batch near its own would let many more replicas divide it."""
    batch, num_devices = job.workload.training.global_batch_size, job.workload.cluster.num_devices
    common, nearest = gcd(batch, num_devices), _nearest_of_more(batch, num_devices)
    if nearest is None:
        return job
    note = Sentence(
        "Batch {:,} and {:,} devices have no divisor above {:,} in common, so few values of dp divide the batch; "
        "batch {:,} shares {:,}.",
        batch,
        num_devices,
        common,
        nearest,
        gcd(nearest, num_devices),
    )
    return job if note in job.warnings else replace(job, warnings=(*job.warnings, note))


def _nearest_of_more(batch: int, num_devices: int) -> int | None:
    """The batch within reach that shares most with the devices, if that is ``_TIMES_MORE`` as much; the nearest of several."""
    common = gcd(batch, num_devices)
    reach = int(batch * _NEAR_FRACTION)
    shared = [each for each in range(min(num_devices, batch + reach), _TIMES_MORE * common - 1, -1) if num_devices % each == 0]
    for divisor in shared:
        below = batch // divisor * divisor
        near = [each for each in (below, below + divisor) if 0 < each and abs(each - batch) <= reach]
        if near:
            return min(near, key=lambda each: (abs(each - batch), each))
    return None

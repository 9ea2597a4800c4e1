"""Spare devices for clusters whose device count no strategy can use."""

from __future__ import annotations

from dataclasses import replace

from app.jobs.job import Job
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from search.feasibility.device_counts import fillable_device_counts
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules, placement_rules
from search.space.limits import SearchLimits
from search.space.search_space import search_space

CONSIDERED_COUNTS = 1024


def with_filled_devices(job: Job) -> Job:
    """The job on the largest number of devices, up to its own, with a legal strategy."""
    most = job.workload.cluster.num_devices
    below = sorted(
        (count for count in fillable_device_counts(job.workload, most, how_many=CONSIDERED_COUNTS) if count < most), reverse=True
    )
    workloads = (replace(job.workload, cluster=replace(job.workload.cluster, num_devices=count)) for count in (most, *below))
    found = next((workload for workload in workloads if _has_legal_strategy(workload, job.limits)), job.workload)
    num_devices = found.cluster.num_devices
    if num_devices == most:
        return job
    return replace(
        job,
        workload=found,
        assumptions=(
            *job.assumptions,
            Sentence("cluster.num_devices = {} of at most {}: {} stay spare", num_devices, most, most - num_devices),
        ),
        document={**job.document, "cluster": {**job.document["cluster"], "num_devices": num_devices}},
    )


def _has_legal_strategy(workload: Workload, limits: SearchLimits) -> bool:
    space = search_space(workload, limits)
    num_devices, batch = workload.cluster.num_devices, workload.training.global_batch_size
    products = {tp * cp * pp for tp in space.tp for cp in space.cp for pp in space.pp}
    if not any(num_devices % product == 0 and batch % (num_devices // product) == 0 for product in products):
        return False  # most counts are decided here, at a thousandth of the cost of an enumeration
    rules, unused = (*option_rules(workload), *placement_rules(workload)), Rejections()
    return any(len(charge_illegal(workload, chunk.batch, rules, unused)) > 0 for chunk in chunks(workload, space, unused))

"""The recipes that vendors publish for a job, as plans of the job."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from app.catalogue.recipes import Recipe, recipes
from app.jobs.job import Job, with_strategy
from cost_models.shapes.canonical import canonical
from documents.errors import InputError
from search.plans.baseline import PublishedPlan

MOST_TIMES_LONGER = 2.0  # a plan for much longer or shorter sequences is no plan for these


def published_plans(job: Job) -> tuple[PublishedPlan, ...]:
    """Plans for the job's model and devices, the nearest first: by the number of devices, the sequence length and the batch."""
    training, cluster = job.workload.training, job.workload.cluster

    def distance(recipe: Recipe) -> tuple[float, ...]:
        pairs = (
            (recipe.num_devices, cluster.num_devices),
            (recipe.seq_length, training.seq_length),
            (recipe.global_batch_size, training.global_batch_size),
        )
        return tuple(abs(log2(one / other)) for one, other in pairs)

    return tuple(_plans(job, sorted(filter(lambda recipe: _is_for(recipe, job), recipes()), key=distance)))


def _is_for(recipe: Recipe, job: Job) -> bool:
    training, profile = job.workload.training, job.workload.cluster.profile
    times = recipe.seq_length / training.seq_length
    return (
        profile.device in recipe.devices
        and (recipe.precision == "fp8") == (training.precision == "fp8")
        and 1.0 / MOST_TIMES_LONGER <= times <= MOST_TIMES_LONGER
        and recipe.trains(job.workload.model)
    )


def _plans(job: Job, found: list[Recipe]) -> Iterator[PublishedPlan]:
    for recipe in found:
        try:
            strategy = with_strategy(job, dict(recipe.strategy)).strategy
        except InputError:
            continue  # the degrees do not divide the devices
        assert strategy is not None
        yield PublishedPlan(
            canonical(job.workload, strategy),
            recipe.vendor,
            recipe.title,
            recipe.source,
            recipe.date,
            recipe.num_devices,
            recipe.seq_length,
            recipe.global_batch_size,
        )

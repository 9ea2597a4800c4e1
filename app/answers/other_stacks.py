"""Prices of launch files whose framework is priced as another stack than the job's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.price import priced
from app.answers.simulation import can_simulate
from app.answers.tables.memory import chance
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from documents.errors import InputError
from documents.quantities import gibibytes, seconds
from documents.sentences import Sentence
from frameworks.legality import launchable_each
from frameworks.registry import BY_LABEL
from search.plans.plan import estimates_to_mappings


def with_prices_of_other_stacks(job: Job, document: dict[str, Any], strategies: Sequence[ParallelStrategy]) -> dict[str, Any]:
    """The document of a search in which a launch file of a plan says its own price, where the plan's is of another stack.

    The price is that of ``meshplan estimate`` of the same plan for the file's target, with that target's defaults. A file of
    another plan, the nearest that its framework takes, has none.
    """
    labels = {label for plan in document["plans"] for label in plan["launchable_on"]}
    stack = job.workload.software.stack
    for label in sorted(label for label in labels if BY_LABEL[label].target.priced_as != stack):
        target = BY_LABEL[label].target
        launches = [plan["launch"][target.name] for plan in document["plans"]]
        places = [place for place, launch in enumerate(launches) if launch["target"] == label and launch["launchable"]]
        prices = _prices(job, label, [strategies[place] for place in places])
        for place, price in zip(places, prices, strict=True):
            launches[place] |= price or {}
            launches[place]["notes"].insert(0, _note(label, target.priced_as, stack, price))
    return document


def _note(label: str, own: str, stack: str, price: Mapping[str, float] | None) -> Sentence:
    if price is None:
        return Sentence("The price of the plan is that of stack {}, not of {}, where it is unknown.", stack, own)
    return Sentence(
        "{} takes {} a step and {} at its peak, and fits with {}: the price of the plan is that of stack {}, not of {}.",
        label,
        seconds(price["step_time_s"]),
        gibibytes(price["peak_memory_bytes"]),
        chance(price["fits_probability"]),
        stack,
        own,
    )


def _prices(job: Job, label: str, strategies: Sequence[ParallelStrategy]) -> list[dict[str, float] | None]:
    """Step time [s], peak [byte] and probability to fit of each strategy for the target; ``None`` where it does not run."""
    document = {name: value for name, value in job.document.items() if name not in ("assumed", "strategy", "search")}
    try:
        workload = parse_job({**document, "software": {"target": label}}, profile=job.workload.cluster.profile).workload
    except InputError:
        return [None] * len(strategies)
    batch = StrategyBatch.of(strategies)
    runs = [index for index, takers in enumerate(launchable_each(workload, batch)) if label in takers]
    found: list[dict[str, float] | None] = [None] * len(strategies)
    for index in runs:
        strategy = strategies[index]
        try:
            numbers = priced(workload, StrategyBatch.of([strategy]), simulated=can_simulate(workload, strategy))
        except InputError:
            continue
        (row,) = estimates_to_mappings(workload, numbers)
        found[index] = {name: row[name] for name in ("step_time_s", "peak_memory_bytes", "fits_probability")}
    return found

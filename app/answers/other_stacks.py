"""Step times of launch files whose framework is priced as another stack than the job's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers.price import priced
from app.answers.simulation import can_simulate
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from documents.errors import InputError
from documents.quantities import seconds
from documents.sentences import Sentence
from frameworks.legality import launchable_each
from frameworks.registry import BY_LABEL


def with_times_of_other_stacks(job: Job, document: dict[str, Any], strategies: Sequence[ParallelStrategy]) -> dict[str, Any]:
    """The document of a search in which a launch file of a plan says its own step time, where the plan's is of another stack.

    The time is that of ``meshplan estimate`` of the same plan for the file's target, with that target's defaults. A file of
    another plan, the nearest that its framework takes, has none.
    """
    labels = {label for plan in document["plans"] for label in plan["launchable_on"]}
    stack = job.workload.software.stack
    for label in sorted(label for label in labels if BY_LABEL[label].target.priced_as != stack):
        target = BY_LABEL[label].target
        launches = [plan["launch"][target.name] for plan in document["plans"]]
        places = [place for place, launch in enumerate(launches) if launch["target"] == label and launch["launchable"]]
        times = _times_s(job, label, [strategies[place] for place in places])
        for place, time_s in zip(places, times, strict=True):
            launches[place]["step_time_s"] = time_s
            launches[place]["notes"].insert(0, _note(label, target.priced_as, stack, time_s))
    return document


def _note(label: str, own: str, stack: str, time_s: float | None) -> Sentence:
    if time_s is None:
        return Sentence("The step time of the plan is that of stack {}, not of {}, where it is unknown.", stack, own)
    return Sentence(
        "{} takes {} a step: the step time of the plan is that of stack {}, not of {}.", label, seconds(time_s), stack, own
    )


def _times_s(job: Job, label: str, strategies: Sequence[ParallelStrategy]) -> list[float | None]:
    """Step time of each strategy for the target; ``None`` where it does not run."""
    document = {name: value for name, value in job.document.items() if name not in ("assumed", "strategy", "search")}
    try:
        workload = parse_job({**document, "software": {"target": label}}, profile=job.workload.cluster.profile).workload
    except InputError:
        return [None] * len(strategies)
    batch = StrategyBatch.of(strategies)
    runs = [index for index, takers in enumerate(launchable_each(workload, batch)) if label in takers]
    found: list[float | None] = [None] * len(strategies)
    for index in runs:
        strategy = strategies[index]
        try:
            numbers = priced(workload, StrategyBatch.of([strategy]), simulated=can_simulate(workload, strategy))
        except InputError:
            continue
        found[index] = float(numbers.step_time_s[0])
    return found

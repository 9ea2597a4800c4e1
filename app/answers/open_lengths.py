"""Intervals of a job whose samples are packed, or as short as they are, and that does not say how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.numbers import numbers_of
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from documents.sentences import Sentence, joined
from frameworks.registry import framework_of, releases_of

LENGTHS = "training.mean_squared_length_fraction"
SHORTEST_SAMPLE = 16  # tokens


def doubt_of_lengths(job: Job) -> str | None:
    """A sentence if samples are packed or short, and no lengths are stated.

    A script says by which arguments. Of another job it is what the launch file of its target would say; without a target, that of
    a release of its stack.
    """
    if LENGTHS not in job.assumed:
        return None
    names = job.uneven or _of_target(job)
    if not names:
        return None
    return Sentence(
        "{}: samples share a sequence or are as short as they are, and their lengths are not known. Attention is priced over "
        "whole sequences, and the lower end of the interval is for samples of a few tokens; --lengths states them.",
        joined(", ", names),
    )


def _of_target(job: Job) -> tuple[str, ...]:
    workload = job.workload
    named = framework_of(workload.software.target)
    releases = releases_of(workload.software.stack) if named is None else (named,)
    return tuple(dict.fromkeys(by for framework in releases if (by := framework.uneven(workload)) is not None))


def shortest_fractions(job: Job, strategies: Sequence[ParallelStrategy], own: Sequence[Calibration]) -> list[float]:
    """Closed-form step times with samples of a few tokens, over those with whole sequences; 1 where lengths are not in doubt."""
    if doubt_of_lengths(job) is None or not strategies:
        return [1.0] * len(strategies)
    workload, batch = job.workload, StrategyBatch.of(strategies)
    fraction = min(SHORTEST_SAMPLE / workload.training.seq_length, 1.0)
    packed = replace(workload, training=replace(workload.training, mean_squared_length_fraction=fraction))
    with np.errstate(all="ignore"):
        shortest, whole = (numbers_of(each, batch, own).step_time_s for each in (packed, workload))
    found: list[float] = np.minimum(shortest / whole, 1.0).tolist()
    return found


def with_shortest_samples(numbers: dict[str, Any], fraction: float) -> None:
    """Let the interval of an estimate reach down to samples of a few tokens; ``fraction``: see ``shortest_fractions``."""
    if numbers["step_time_low_s"] is not None:
        numbers["step_time_low_s"] *= fraction

"""The constants that price a job: the shipped ones, or a calibration of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from app.calibrations.doubts import doubts_routing, with_doubts
from app.jobs.job import Job
from calibration.files.calibrations import Calibration, calibration_for, read_calibration
from calibration.intervals.plan_differences import CONFIDENCE
from calibration.intervals.step_time import QUANTILES_FROM
from calibration.splits.mechanisms import run_mechanisms
from cost_models.constants import Constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate, uneven_experts_fraction
from documents.errors import InputError, show
from documents.sentences import Sentence
from search.ranking.ties import PairedError

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

FIELD = "software.calibration (--calibration)"


def constants_for(workload: Workload, own: Sequence[Calibration] = ()) -> Constants:
    """The constants of the user's calibration if one applies, otherwise of the shipped calibration."""
    return calibration_for(workload, own).constants_of(workload)


def interval_of(record: RunRecord, step_time_s: float, own: Sequence[Calibration] = ()) -> tuple[float, float]:
    """80 % interval of a measured run's predicted step time. [s]"""
    workload, calibration = record.workload, calibration_for(record.workload, own)
    found = calibration.interval(workload, step_time_s, run_mechanisms(record))
    batch, constants = StrategyBatch.of([record.strategy]), calibration.constants_of(workload)
    uneven = float(uneven_experts_fraction(workload, batch, constants)[0]) if doubts_routing(workload) else 0.0
    on_host = (
        _optimizer_fraction(workload, batch, constants) if Feature.OPTIMIZER_CPU_OFFLOAD in record.strategy.features else 0.0
    )
    ratios = found.low_s / step_time_s, found.high_s / step_time_s
    low, high = with_doubts(workload, ratios, uneven_fraction=uneven, on_host_fraction=on_host)
    return step_time_s * low, step_time_s * high


def _optimizer_fraction(workload: Workload, batch: StrategyBatch, constants: Constants) -> float:
    """The optimizer's share of the step of the one strategy of a batch."""
    found = estimate(workload, batch, constants, breakdown=True)
    assert found.breakdown is not None
    return float((found.breakdown.time_s["optimizer"] / found.step_time_s)[0])


def paired_error_of(workload: Workload, own: Sequence[Calibration] = ()) -> PairedError:
    """The difference below which two plans of the workload tie."""
    calibration = calibration_for(workload, own)
    found = calibration.paired_error(workload)
    jobs = Sentence(
        "{} {} measured under several plans",
        found.num_groups or "no",
        Sentence("job") if found.num_groups == 1 else Sentence("jobs"),
    )
    few = Sentence("only {}, so widened", jobs) if found.num_groups else Sentence("{}: assumed", jobs)
    basis = jobs if found.num_groups >= QUANTILES_FROM else few
    return PairedError(float(np.expm1(found.log_error)), CONFIDENCE, found.num_groups, found.num_pairs, basis)


def read_own(path: Path | None) -> tuple[Calibration, ...]:
    try:
        return () if path is None else (read_calibration(path),)
    except InputError as error:
        raise InputError(Sentence("--calibration: {}", error)) from None


def own_calibrations(job: Job) -> tuple[Calibration, ...]:
    """The calibration file that the job names; ``InputError`` unless it is for the job's hardware and stack."""
    if job.calibration is None:
        return ()
    if "/" not in job.calibration:
        raise InputError(
            Sentence(
                "{}: {} is no file here; a server's own calibrations are used with its own searches and "
                "estimates, or saved as files (`calibration` of GET /v1/calibrations/ID).",
                FIELD,
                show(job.calibration),
            )
        )
    try:
        calibration = read_calibration(Path(job.calibration))
    except InputError as error:
        raise InputError(Sentence("{}: {}", FIELD, error)) from None
    check_applies(calibration, job, job.calibration, FIELD)
    return (calibration,)


def check_applies(calibration: Calibration, job: Job, name: str, field: str) -> None:
    """``InputError`` if the calibration was fitted for other hardware or software than the job's."""
    workload = job.workload
    if not calibration.applies_to(workload):
        fitted_for = Sentence(
            "{} on {}", calibration.stack or calibration.family, calibration.hardware or Sentence("any of its hardware")
        )
        raise InputError(
            Sentence(
                "{}: {} was fitted for {}, but the job runs {} on {}.",
                field,
                name,
                fitted_for,
                workload.software.stack,
                workload.cluster.profile.name,
            )
        )


def calibration_sentence(calibration: Calibration) -> str:
    """The sentence of an answer about a calibration that the user gave."""
    return Sentence(
        "software.calibration = {}, fitted to runs of {} on {} by `{}`",
        calibration.fingerprint,
        calibration.stack or calibration.family,
        calibration.hardware or Sentence("any of its hardware"),
        calibration.command,
    )

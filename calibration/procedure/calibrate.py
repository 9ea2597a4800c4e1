"""From measured runs to a calibration: the free constants, the fit, and the left-out errors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from calibration.files.calibrations import Calibration, FittedConstant, rounded, shipped_calibration
from calibration.fitting.robust_fit import (
    Fitted,
    Floats,
    Observation,
    Progress,
    fit,
    left_out_log_errors,
    observation_of,
    observations_of,
)
from calibration.intervals.memory import (
    MemoryErrors,
    family_priors,
    memory_bands,
    memory_coverage,
    memory_mechanisms,
    memory_step,
)
from calibration.intervals.memory_errors import memory_errors
from calibration.intervals.plan_differences import PairedError, job_pairs, paired_errors
from calibration.intervals.step_time import (
    LEARNING_PRECISIONS,
    QUANTILES_FROM,
    ErrorBand,
    coverage_of,
    error_bands,
    merged_coverage,
)
from calibration.leave_out.ablation import ablations
from calibration.leave_out.family_errors import LeftOut, family_bands, family_steps, left_out_errors, seen_mechanisms
from calibration.leave_out.nested import nested_model
from calibration.procedure.free_constants import SITE_LOG_SPREAD, free_constants, site_constants
from calibration.procedure.time_factor import SiteFactor, site_factor
from calibration.records.training import RefusedRecord, RunRecord
from calibration.splits.groups import architecture
from cost_models.constants import Constants, prior_constants
from documents.late_methods import dataclass
from documents.sentences import Sentence

ABLATED_EVERY = {"ascend": 2, "gpu": 4}  # ablations use every n-th run of each architecture, enough to compare mechanisms
FEWEST_ARCHITECTURES = 3  # number of architectures below which one run is left out at a time


@dataclass(frozen=True)
class Outcome:
    """A calibration with its fit and its left-out errors, ``[observation]`` each; ``left_out`` is nested."""

    calibration: Calibration
    fitted: Fitted
    prior_log_errors: Floats
    architecture_left_out: Floats
    left_out: LeftOut


@dataclass(frozen=True)
class SiteOutcome:
    """A site's calibration with its evidence.

    ``base_log_errors`` are those of the calibration that the fit started from, ``left_out`` those with the run's own group left
    out, ``[observation]`` each. ``left_out_by`` is ``architecture`` or ``run``; ``has_own_intervals`` says whether there are
    enough of them for quantiles. ``factor`` is the time factor that would explain the runs without fitted constants.
    ``refused`` has a sentence for each refused id.
    """

    calibration: Calibration
    fitted: Fitted
    base_log_errors: Floats
    left_out: Floats
    factor: SiteFactor
    left_out_by: str
    has_own_intervals: bool
    refused: tuple[tuple[str, str], ...]


def family_observations(records: Sequence[RunRecord], family: str) -> tuple[Observation, ...]:
    """The runs that a family's shipped calibration learns from: in BF16, FP16 or FP32."""
    learning = [r for r in records if r.workload.training.precision in LEARNING_PRECISIONS]
    return observations_of(learning, prior_constants(family))


def untaught_observations(records: Sequence[RunRecord], family: str) -> tuple[Observation, ...]:
    """The runs in precisions that no fit uses; they are predicted with the constants of the others."""
    others = [r for r in records if r.workload.training.precision not in LEARNING_PRECISIONS]
    return observations_of(others, prior_constants(family))


def calibrate(
    records: Sequence[RunRecord],
    family: str,
    command: str,
    *,
    memory: MemoryErrors | None = None,
    on_progress: Progress | None = None,
) -> Outcome:
    """Fit a family's constants to its runs and compute the left-out errors.

    ``command`` makes the same file again. ``memory`` are the errors of predicted peaks, also of other families; default: those
    of the records. Raises ``ValueError`` if the fit can use no record.
    """
    start = prior_constants(family)
    observations = family_observations(records, family)
    if not observations:
        raise ValueError(Sentence("no record has a step time that can teach anything"))
    names = free_constants(family, [o.record.workload.software.stack for o in observations])
    fitted = fit(observations, start, names, on_progress=on_progress)
    used = [o.record for o in observations]
    by_architecture = left_out_log_errors(fitted, [architecture(r) for r in used])
    nested = nested_model(observations, fitted.constants, family, names, untaught_observations(records, family))
    left_out = replace(left_out_errors(nested), ablations=ablations(nested, family, names, ABLATED_EVERY[family]))
    judged = [o.record for o in nested.observations]
    memory = memory_errors(records, family_priors) if memory is None else memory
    calibration = Calibration(
        family,
        _entries(fitted),
        (),
        coverage_of(used),
        len(used),
        command,
        mechanisms=tuple(sorted(seen_mechanisms(used))),
        correlations=_correlations(fitted.names, fitted),
    )
    prior_errors = np.array([o.log_error(start) for o in observations])
    return Outcome(with_intervals(calibration, judged, left_out, memory), fitted, prior_errors, by_architecture, left_out)


def with_intervals(calibration: Calibration, judged: Sequence[RunRecord], left_out: LeftOut, memory: MemoryErrors) -> Calibration:
    """The calibration with bands and steps from left-out errors, which are of the ``judged`` runs, and from errors of peaks."""
    return replace(
        calibration,
        bands=_rounded_bands(family_bands(judged, left_out)),
        steps=tuple(replace(step, factor=rounded(step.factor)) for step in family_steps(judged, left_out)),
        memory_bands=_rounded_bands(memory_bands(memory)),
        memory_coverage=memory_coverage(memory),
        memory_mechanisms=memory_mechanisms(memory),
        memory_steps=(replace(step := memory_step(memory), factor=rounded(step.factor)),),
    )


def calibrate_site(
    records: Sequence[RunRecord | RefusedRecord],
    base: Calibration,
    *,
    hardware: str,
    stack: str,
    command: str,
    on_progress: Progress | None = None,
) -> SiteOutcome:
    """Move a base calibration towards a site's own runs of one hardware profile and software stack.

    The base's values are the priors. Their spreads are the base's, widened by the differences between sites, or those of their
    sources where the base was not fitted: a few runs move the constants that they depend on, and the rest stays. Records that the
    fit cannot use are refused one by one. Raises ``ValueError`` if none is left.
    """
    start = base.constants
    used: list[Observation] = []
    refused: list[tuple[str, str]] = []
    for record in records:
        found = _site_observation(record, start, hardware, stack)
        if isinstance(found, Observation):
            used.append(found)
        else:
            refused.append((record.id, found))
    if not used:
        first = Sentence(" The first record says: {}", refused[0][1]) if refused else ""
        raise ValueError(Sentence("no record can teach anything about {} on {}.{}", stack, hardware, first))
    names = site_constants(base.family, stack)
    known = {entry.name: entry.log_spread for entry in base.fitted}
    spread = {name: float(np.hypot(known[name], SITE_LOG_SPREAD)) for name in names if name in known}
    fitted = fit(used, start, names, prior_spread=spread, on_progress=on_progress)
    by, groups = _site_groups([o.record for o in used])
    left_out = left_out_log_errors(fitted, groups)
    own = [o.record for o in used]
    moved = {entry.name: entry for entry in _entries(fitted)}
    peaks = memory_errors(own, base.constants_of)
    entries = (*(moved.get(e.name, e) for e in base.fitted), *(e for e in moved.values() if e.name not in known))
    calibration = Calibration(
        base.family,
        entries,
        _rounded_bands(error_bands(own, left_out.tolist(), groups, base.bands)),
        merged_coverage(base.coverage, coverage_of(own)),
        base.num_runs + len(own),
        command,
        hardware,
        stack,
        _rounded_bands(memory_bands(peaks, base.memory_bands)),
        merged_coverage(base.memory_coverage, memory_coverage(peaks)),
        rounded_paired(
            paired_errors(job_pairs(own, left_out.tolist()), wider=base.paired or shipped_calibration(base.family).paired)
        ),
        steps=base.steps,
        mechanisms=tuple(sorted({*base.mechanisms, *seen_mechanisms(own)})) if base.mechanisms else (),
        correlations=_correlations([entry.name for entry in entries], fitted),
        memory_mechanisms=tuple(sorted({*base.memory_mechanisms, *memory_mechanisms(peaks)})) if base.memory_mechanisms else (),
        memory_steps=base.memory_steps,
    )
    base_errors = np.array([o.log_error(start) for o in used])
    factor = site_factor(used, base, base_errors)
    return SiteOutcome(calibration, fitted, base_errors, left_out, factor, by, len(set(groups)) >= QUANTILES_FROM, tuple(refused))


def _site_observation(record: RunRecord | RefusedRecord, start: Constants, hardware: str, stack: str) -> Observation | str:
    if isinstance(record, RefusedRecord):
        return record.reason
    name, software = record.workload.cluster.profile.name, record.workload.software.stack
    if name != hardware:
        return Sentence("cluster.hardware is {}; this calibration is for {}.", name, hardware)
    if software != stack:
        return Sentence("software.framework is read as {}; this calibration is for {}.", software, stack)
    # A site's matmuls have no factor of a published machine, and neither have its jobs.
    own = replace(record.workload, software=replace(record.workload.software, stock_matmuls=False))
    return observation_of(replace(record, workload=own), start)


def _site_groups(records: Sequence[RunRecord]) -> tuple[str, list[Hashable]]:
    shapes = [architecture(record) for record in records]
    if len(set(shapes)) >= FEWEST_ARCHITECTURES:
        return "architecture", shapes
    return "run", list(range(len(records)))


def _entries(fitted: Fitted) -> tuple[FittedConstant, ...]:
    start, constants = fitted.start, fitted.constants
    return tuple(
        FittedConstant(
            name, rounded(getattr(constants, name)), rounded(getattr(start, name)), rounded(float(before)), rounded(float(after))
        )
        for name, before, after in zip(fitted.names, fitted.prior_spread, fitted.spread, strict=True)
    )


def _correlations(names: Sequence[str], fitted: Fitted) -> tuple[float, ...]:
    """Correlations for these names, in the order of ``Calibration``; constants that were not fitted now count as independent."""
    place = {name: index for index, name in enumerate(fitted.names)}
    covariance, spread = fitted.covariance, fitted.spread
    return tuple(
        rounded(float(covariance[place[a], place[b]] / (spread[place[a]] * spread[place[b]]))) if {a, b} <= place.keys() else 0.0
        for i, a in enumerate(names)
        for b in names[:i]
    )


def rounded_paired(errors: Sequence[PairedError]) -> tuple[PairedError, ...]:
    """The errors to the digits that files keep."""
    return tuple(replace(error, log_error=rounded(error.log_error)) for error in errors)


def _rounded_bands(bands: Sequence[ErrorBand]) -> tuple[ErrorBand, ...]:
    return tuple(ErrorBand(b.kind, rounded(b.low), rounded(b.high), b.num_runs) for b in bands)

"""Numbers of a job and its baseline: how far each moved, and whether the job or the tool caused it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from app.answers.schemas import EstimateDocument
from app.checks.baseline import HASHES, LARGEST, Baseline, job_changes, repriced
from app.checks.metrics import DEVICE_DAYS, measured, numbers_of, shown, worsening
from app.checks.outcome import item
from app.checks.schemas import CheckItem, Comparison, Movement, PartMovement, StoredHashes
from app.jobs.job import Job
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from documents.errors import InputError, show
from documents.quantities import percent
from documents.sentences import Sentence

TIMED = ("step_time_s", "tokens_per_s", "tokens_per_s_per_device", "mfu_fraction", DEVICE_DAYS)  # derived from the step time
ALWAYS_COMPARED = ("step_time_s", "tokens_per_s", "peak_memory_bytes")
SMALLEST = 1e-30  # smallest stored number used as a divisor
PART, MAX_PARTS = r"[a-z][a-z0-9_]{0,59}", 100  # parts of a breakdown
TOLERATED_FRACTION = 1e-9  # arithmetic on another machine may differ in the last digits


def compared(
    baseline: Baseline,
    job: Job,
    priced: EstimateDocument,
    needed: Sequence[str],
    wanted: Sequence[str],
    own: Sequence[Calibration],
    *,
    pin: bool,
    tool_changes: list[str],
) -> Comparison:
    """The ``baseline`` part of a check's document, for the ``wanted`` metrics that the baseline has."""
    note = None
    try:
        again: EstimateDocument | None = repriced(baseline, job, own)
    except InputError as error:
        if pin:
            raise InputError(
                Sentence("pin (--pin): {}: its job cannot be priced by this version ({})", baseline.name, error)
            ) from None
        again, note = None, Sentence("The baseline's job cannot be priced by this version: {}", error)
    # Read by this version: a newer field or another default is a change of the tool, not of the job.
    old = baseline.job if again is None else _with_strategy(again)
    movements = []
    for metric in dict.fromkeys((*ALWAYS_COMPARED, *needed, *wanted)):
        with nullcontext() if metric in (*ALWAYS_COMPARED, *needed) else suppress(InputError):
            movements.append(_movement(metric, baseline, again, priced, pin=pin))
    return Comparison(
        name=baseline.name,
        pinned=pin,
        priced_with=StoredHashes.model_validate({name: baseline.priced_with.get(name) for name in HASHES}),
        tool_changes=tool_changes,
        job_changes=job_changes(old, _with_strategy(priced)),
        movements=movements,
        time_parts=_parts("time_breakdown_s", baseline, again, priced, pin=pin),
        memory_parts=_parts("memory_breakdown_bytes", baseline, again, priced, pin=pin),
        note=note,
    )


def _parts(
    breakdown: str, baseline: Baseline, again: EstimateDocument | None, priced: EstimateDocument, *, pin: bool
) -> list[PartMovement]:
    """Movements of parts in either breakdown; empty if the baseline has no breakdown."""
    held = getattr(again.estimate, breakdown) if pin and again is not None else baseline.estimate.get(breakdown)
    before = _plain_parts(held) if isinstance(held, Mapping) else {}
    now: Mapping[str, float] = getattr(priced.estimate, breakdown)
    if not before:
        return []
    pairs = {name: (before.get(name, 0.0), now.get(name, 0.0)) for name in dict.fromkeys((*now, *before))}
    moved = [PartMovement(part=name, before=old, value=new, change=new - old) for name, (old, new) in pairs.items() if old or new]
    return sorted(moved, key=lambda part: -abs(part.change))


def _plain_parts(held: Mapping[Any, Any]) -> dict[str, float]:
    """Parts of an untrusted file: only names like ours, only numbers."""
    parts = [(name, value) for name, value in held.items() if isinstance(name, str) and re.fullmatch(PART, name)]
    numbers = [(name, float(value)) for name, value in parts if isinstance(value, int | float) and not isinstance(value, bool)]
    return dict(numbers[:MAX_PARTS])


def _with_strategy(priced: EstimateDocument) -> dict[str, Any]:
    return {**priced.job, "strategy": plain(priced.strategy)}


def _movement(
    metric: str, baseline: Baseline, again: EstimateDocument | None, priced: EstimateDocument, *, pin: bool
) -> Movement:
    """``value / before`` is ``(1 + tool_fraction) (1 + job_fraction)``."""
    before = _stored(metric, baseline)
    value = measured(metric, numbers_of(priced), priced.job, where="budget")
    between = None if again is None else measured(metric, numbers_of(again), again.job, where="baseline")
    compared_with = between if pin and between is not None else before
    return Movement(
        metric=metric,
        before=before,
        repriced=between,
        value=value,
        tool_fraction=_change(before, between),
        job_fraction=_change(between, value),
        worse_fraction=worsening(metric, compared_with, value),
    )


def _stored(metric: str, baseline: Baseline) -> float:
    try:
        value = measured(metric, baseline.estimate, baseline.job, where=baseline.name)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError):
        value = math.nan
    if value and not SMALLEST <= abs(value) <= LARGEST:
        held = baseline.estimate.get(metric) if metric != DEVICE_DAYS else baseline.estimate.get("tokens_per_s")
        raise InputError(
            Sentence("{}: its estimate.{} is {}; a number is needed to compare with.", baseline.name, metric, show(held))
        )
    return value


def _change(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def regression_items(comparison: Comparison, tolerances: Mapping[str, float], paired_fraction: float) -> list[CheckItem]:
    """An item for each tolerance. A worsening below ``paired_fraction`` is reported as within the error, and fails too.

    That error applies to times of two plans of one job and one tool. The tolerance of the budget decides.
    """
    only_the_plan = bool(comparison.job_changes) and all(change.startswith("strategy") for change in comparison.job_changes)
    is_paired = only_the_plan and (comparison.pinned or not comparison.tool_changes)
    movements = {movement.metric: movement for movement in comparison.movements}
    return [
        _item(movements[metric], limit, paired_fraction if is_paired and metric in TIMED else 0.0, pin=comparison.pinned)
        for metric, limit in tolerances.items()
    ]


def _item(movement: Movement, limit: float, paired_fraction: float, *, pin: bool) -> CheckItem:
    metric, worse = movement.metric, movement.worse_fraction
    holds = worse is not None and worse <= limit + TOLERATED_FRACTION
    start = movement.repriced if pin and movement.repriced is not None else movement.before
    if worse is None:
        said = Sentence("worse, and the baseline is no measure of how much")
    elif worse == 0:
        said = Sentence("no change")
    else:
        said = Sentence("{} {}", percent(abs(worse), 2), Sentence("worse") if worse > 0 else Sentence("better"))
    if worse is not None and 0 < worse < paired_fraction:
        said += Sentence(" (less than the paired error of {}: the plans cannot be told apart)", percent(paired_fraction))
    allowed = Sentence("{}at most {} worse is allowed", "" if holds else "but ", percent(limit, 2))
    sentence = Sentence(
        "{} went from {} to {}: {}, {}.", metric, shown(metric, start), shown(metric, movement.value), said, allowed
    )
    return item(f"regression.{metric}", "passed" if holds else "failed", sentence, metric, worse, limit)

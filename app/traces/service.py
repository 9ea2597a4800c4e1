"""Comparison of a measured step with the prediction of the job's strategy, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument
from app.answers.simulation import can_simulate, play
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for
from app.jobs.job import Job
from app.text.json_documents import plain
from app.traces.schemas import ComparedPart, TraceDocument, TracedStep, UnknownKernelDocument
from app.traces.trace_parts import dealt, sentences
from calibration.files.calibrations import Calibration
from calibration.traces.events import read_trace
from calibration.traces.groups import Layout
from calibration.traces.measured import TOGETHER, MeasuredStep, Source, TraceError
from calibration.traces.timelines import own_step, read_step
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError, cause_of
from documents.sentences import Sentence, joined, word

_SAME = 1e-6  # share of a step; traces have nanoseconds
_HALF = 0.5


def compared(
    job: Job, path: Path, own: Sequence[Calibration] = (), *, rank: int | None = None, step: int | None = None
) -> TraceDocument:
    """The comparison; ``InputError`` with the file's name if it has no such step."""
    if job.strategy is None:
        raise InputError(Sentence("--job: the job has no strategy; give the one that was running when the trace was taken."))
    strategy = job.strategy
    try:
        measured = read_step(path, Layout.of(job.workload, strategy), rank, step)
    except TraceError as error:
        raise InputError(Sentence("{}: {}", path, error)) from None
    except OSError as error:
        raise InputError(Sentence("{}: cannot be read ({}).", path, cause_of(error))) from None
    priced = estimate_document(job, strategy, own, simulated=can_simulate(job.workload, strategy))
    parts, notes = _played(job, strategy, own, measured) if measured.source is Source.OWN else _dealt(job, priced, measured)
    return _document(priced, measured, parts, [*measured.notes, *notes])


def _dealt(job: Job, priced: EstimateDocument, measured: MeasuredStep) -> tuple[list[ComparedPart], list[str]]:
    estimate = priced.estimate
    shown = dealt(measured.source, estimate.time_breakdown_s, strategy=priced.strategy)
    hidden = dealt(measured.source, estimate.masked_s)
    return _joined(measured, shown, hidden), sentences(measured, priced.strategy)


def _played(
    job: Job, strategy: ParallelStrategy, own: Sequence[Calibration], measured: MeasuredStep
) -> tuple[list[ComparedPart], list[str]]:
    """The timeline of this job, to compare with a trace of our own, which has the same bars."""
    try:
        played = play(job.workload, strategy, constants_for(job.workload, own))
        predicted = own_step(read_trace(trace_text(played)), measured.rank)
    except TraceError as error:
        raise InputError(Sentence("--job: its timeline {}", error)) from None
    except ValueError as error:
        raise InputError(Sentence("--job: {}.", str(error).rstrip("."))) from None
    shown = {part: {part: time_s} for part, time_s in predicted.exposed_s.items()}
    hidden = {part: {part: time_s} for part, time_s in predicted.masked_s.items()}
    return _joined(measured, shown, hidden), []


def _joined(
    measured: MeasuredStep, shown: Mapping[str, Mapping[str, float]], hidden: Mapping[str, Mapping[str, float]]
) -> list[ComparedPart]:
    """A row for each part, or for several parts with ambiguous measured time; the largest disagreement first."""
    rows = []
    for group in _groups([*measured.exposed_s, *measured.masked_s], [*shown, *hidden]):
        of: dict[str, float] = {}
        for part in group:
            for name, time_s in shown.get(part, {}).items():
                of[name] = of.get(name, 0.0) + time_s
        measured_s = sum(time_s for key, time_s in measured.exposed_s.items() if group & set(key.split(TOGETHER)))
        beside_s = sum(time_s for key, time_s in measured.masked_s.items() if group & set(key.split(TOGETHER)))
        predicted_s = sum(of.values())
        rows.append(
            ComparedPart(
                part=TOGETHER.join(part for part in shown if part in group) or TOGETHER.join(sorted(group)),
                of=dict(sorted(of.items(), key=lambda item: -item[1])),
                measured_s=measured_s,
                predicted_s=predicted_s,
                difference_s=measured_s - predicted_s,
                measured_masked_s=beside_s,
                predicted_masked_s=sum(sum(hidden.get(part, {}).values()) for part in group),
            )
        )
    told = [row for row in rows if row.measured_s or row.predicted_s or row.measured_masked_s or row.predicted_masked_s]
    return sorted(told, key=lambda row: (-abs(row.difference_s), row.part))


def _groups(keys: Iterable[str], parts: Iterable[str]) -> list[frozenset[str]]:
    """Groups of parts that some key joins."""
    groups = [frozenset({part}) for part in dict.fromkeys(parts)]
    for key in keys:
        named = frozenset(key.split(TOGETHER))
        touched = [group for group in groups if group & named]
        groups = [group for group in groups if group not in touched] + [named.union(*touched)]
    return groups


def _document(
    priced: EstimateDocument, measured: MeasuredStep, parts: Sequence[ComparedPart], notes: Sequence[str]
) -> TraceDocument:
    difference_s = measured.step_time_s - sum(row.predicted_s for row in parts)
    known = plain(priced)
    times_s = measured.step_times_s or {0: measured.step_time_s}
    return TraceDocument.model_validate(
        {
            **{name: known[name] for name in known if name in TraceDocument.model_fields},
            "trace": TracedStep(
                source=measured.source.value,
                rank=measured.rank,
                step=measured.step,
                step_time_s=measured.step_time_s,
                ranks=list(measured.ranks),
                step_times_s={str(step): time_s for step, time_s in measured.step_times_s.items()},
                median_step_time_s=median(times_s.values()),
            ),
            "difference_s": difference_s,
            "difference_fraction": difference_s / (measured.step_time_s - difference_s),
            "accounted": accounted(difference_s, measured.step_time_s, parts),
            "parts": parts,
            "unknown_kernels": [
                UnknownKernelDocument(name=each.name, count=each.count, time_s=each.time_s) for each in measured.unknown
            ],
            "notes": list(notes),
        }
    )


def accounted(difference_s: float, step_time_s: float, parts: Sequence[ComparedPart]) -> str:
    """Sentences on the part with most of the difference, and on parts that reduce it."""
    tolerance_s = _SAME * step_time_s
    if all(abs(row.difference_s) <= tolerance_s for row in parts):
        return Sentence("Every part is as predicted.")
    largest = parts[0]
    with_it = [row for row in parts if row.difference_s * difference_s > 0.0]
    if not with_it or abs(difference_s) < _HALF * abs(largest.difference_s):
        other = next((row for row in parts if row.difference_s * largest.difference_s < 0.0), None)
        shown = [largest] if other is None else [largest, other]
        listed = joined(", ", (f"{label(row.part)} {row.difference_s:+,.3g} s" for row in shown))
        return Sentence("Parts differ by more than the step and nearly cancel out: {}.", listed)
    main, way = with_it[0], Sentence("longer") if difference_s > 0.0 else Sentence("shorter")
    share = main.difference_s / sum(row.difference_s for row in with_it)
    return Sentence(
        "Most of it is in {}: {:,.3g} s {} than predicted, {:.0%} of all that is {}.",
        label(main.part),
        abs(main.difference_s),
        way,
        share,
        way,
    )


def label(part: str) -> str:
    """A part's name as people read it."""
    return joined(" or ", (_LABELS.get(each, word(each)) for each in part.split(TOGETHER)))


_LABELS = {
    "passes": Sentence("passes (compute, host, TP and CP in place)"),
    "vector": Sentence("vector and other known compute"),
    "other_kernels": Sentence("kernels of no known kind"),
    "communication": Sentence("communication"),
    "tp_comm": Sentence("TP communication"),
    "cp_comm": Sentence("CP communication"),
    "ep_comm": Sentence("EP communication"),
    "dp_comm": Sentence("DP communication"),
    "pipeline": Sentence("pipeline (sends, receives, bubble)"),
    "host_transfer": Sentence("transfers to and from the host"),
    "free": Sentence("free (waiting for the host)"),
}

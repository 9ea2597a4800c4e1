"""One family's errors under nested leave-out: computed by `make calibration`, stored in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from calibration.fitting.robust_fit import Floats
from calibration.intervals.step_time import LEARNING_PRECISIONS, ErrorBand, error_bands, over_band
from calibration.intervals.widening import (
    CHIP,
    COMBINATION,
    MECHANISM,
    STACK,
    Step,
    cell,
    factor_of,
    mechanisms_taken,
    step_of,
    steps_taken,
)
from calibration.leave_out.ablation import Ablation
from calibration.leave_out.nested import NestedModel
from calibration.records.training import RunRecord
from calibration.splits.folds import Fold, Mask, grouped_folds, rolling_folds
from calibration.splits.groups import GROUPINGS, architecture, chip, framework, period
from calibration.splits.mechanisms import run_mechanisms
from documents.late_methods import dataclass
from documents.sentences import Sentence

ROLLING = Sentence("rolling origin")
SPLITS = (*GROUPINGS, "combination", ROLLING)
MOST_OF = 0.5  # share of runs; if more runs have a mechanism, too few are left for a fit without it
_DIGITS = 4  # digits of a log error


@dataclass(frozen=True)
class LeftOut:
    """ln(predicted / measured) of runs that neither the fit nor any number behind it has seen; NaN where a split judges none.

    ``ids`` are the runs that a fit uses, then those in precisions that it never uses. ``splits`` has an entry for each of
    ``SPLITS``, ``mechanisms`` one for each that was left out, ``[run]`` each. ``ablations`` start with the full model.
    """

    ids: tuple[str, ...]
    splits: Mapping[str, Floats]
    mechanisms: Mapping[str, Floats]
    ablations: tuple[Ablation, ...] = ()

    def some(self, chosen: Mask) -> LeftOut:
        """The errors of some runs."""
        return LeftOut(
            tuple(np.array(self.ids)[chosen].tolist()),
            {name: errors[chosen] for name, errors in self.splits.items()},
            {name: errors[chosen] for name, errors in self.mechanisms.items()},
        )


def left_out_errors(model: NestedModel) -> LeftOut:
    """The errors of a family's runs under every split."""
    records = [o.record for o in model.observations]
    teaches = np.array([o.weight > 0.0 for o in model.observations])
    splits = {name: model.log_errors_of(folds_of(records, name)) for name in SPLITS}
    used = [run_mechanisms(record) for record in records]
    mechanisms = {}
    for name in sorted(frozenset().union(*used)):
        has = np.array([name in own for own in used])
        if has[teaches].mean() <= MOST_OF:
            mechanisms[name] = model.log_errors_of([Fold(~has, has & _counting(records, name))])
    return LeftOut(tuple(r.id for r in records), splits, mechanisms)


def near_log_errors(records: Sequence[RunRecord], left_out: LeftOut) -> Floats:
    """The error of each run as if it were new, on known hardware and software. ``[run]``

    Its publication is left out if others have its stack and chip; otherwise only its architecture is.
    """
    groups, teaches = [record.origin.publication for record in records], taught(records)
    found = left_out.splits["architecture"].copy()
    for publication in dict.fromkeys(groups):
        out = np.array([group == publication for group in groups])
        rest = [cell(r.workload) for r, chosen in zip(records, teaches & ~out, strict=True) if chosen]
        for i in np.flatnonzero(out).tolist():
            if not {STACK, CHIP} & {step.kind for step in steps_taken(records[i].workload, rest)}:
                found[i] = left_out.splits["publication"][i]
    return found


def family_bands(records: Sequence[RunRecord], left_out: LeftOut) -> tuple[ErrorBand, ...]:
    """The bands of a new run on known hardware and software, from runs in precisions that a fit uses.

    Shapes of one publication share its site, software and way of measuring.
    """
    teaches = taught(records)
    own = [r for r, chosen in zip(records, teaches, strict=True) if chosen]
    publications = [record.origin.publication for record in own]
    groups = [(publication, architecture(record)) for publication, record in zip(publications, own, strict=True)]
    return error_bands(own, near_log_errors(records, left_out)[teaches].tolist(), groups, clusters=publications)


def family_steps(records: Sequence[RunRecord], left_out: LeftOut) -> tuple[Step, ...]:
    """The factor of each kind of step: errors with each group left out, over the bands of a new run on what is known.

    Where a group is left out, other runs of its publications stay in the fit. A run that is new in both errs by the larger of
    the two errors at least. A precision that no fit uses counts as a mechanism without a run.
    """
    teaches, bands = taught(records), family_bands(records, left_out)
    known = over_band(records, near_log_errors(records, left_out), bands)

    def of(log_errors: Floats, chosen: Mask) -> Floats:
        errors = np.maximum(over_band(records, log_errors, bands), known)
        return np.where(chosen, errors, np.nan)

    def alone(split: str, things: Sequence[object]) -> dict[str, Floats]:
        errors = of(left_out.splits[split], teaches)
        return {str(thing): np.where([other == thing for other in things], errors, np.nan) for thing in dict.fromkeys(things)}

    mechanisms = {name: of(errors, _counting(records, name)) for name, errors in left_out.mechanisms.items()}
    return (
        step_of(STACK, records, alone("framework", [framework(r) for r in records])),
        step_of(CHIP, records, alone("chip", [chip(r) for r in records])),
        step_of(COMBINATION, records, alone("combination", [cell(r.workload) for r in records])),
        step_of(MECHANISM, records, mechanisms),
    )


def taught(records: Sequence[RunRecord]) -> Mask:
    """Which runs are in a precision that a fit uses. ``[run]``"""
    return np.array([record.workload.training.precision in LEARNING_PRECISIONS for record in records])


def seen_mechanisms(records: Sequence[RunRecord]) -> frozenset[str]:
    """Mechanisms of the runs that a fit uses."""
    return frozenset().union(*(run_mechanisms(r) for r, chosen in zip(records, taught(records), strict=True) if chosen))


def _counting(records: Sequence[RunRecord], mechanism: str) -> Mask:
    """Runs that measure the cost of leaving a mechanism out; a precision that no fit uses counts for itself only. ``[run]``"""
    found: Mask = taught(records) | np.array([f"precision {r.workload.training.precision}" == mechanism for r in records])
    return found


def inside_intervals(records: Sequence[RunRecord], left_out: LeftOut, split: str = "publication") -> Floats:
    """1 if a run is inside the interval of its fit, with bands and steps, else 0; NaN if the split judges no run. ``[run]``"""
    inside = np.full(len(records), np.nan)
    for fold in folds_of(records, split):
        rest = [record for record, teaches in zip(records, fold.teaches, strict=True) if teaches]
        if not taught(rest).any():
            inside[fold.judged] = 0.0
            continue
        others = left_out.some(fold.teaches)
        bands = family_bands(rest, others)
        steps, seen = family_steps(rest, others), seen_mechanisms(rest)
        cells = [cell(r.workload) for r, teaches in zip(rest, taught(rest), strict=True) if teaches]
        errors = over_band(records, left_out.splits[split], bands)
        for i in np.flatnonzero(fold.judged & ~np.isnan(errors)).tolist():
            taken = [*steps_taken(records[i].workload, cells), *mechanisms_taken(run_mechanisms(records[i]), seen)]
            inside[i] = errors[i] <= factor_of(taken, steps)
    return inside


def folds_of(records: Sequence[RunRecord], split: str) -> list[Fold]:
    """The folds of one of ``SPLITS``: which runs a fit uses, and which are judged."""
    if split == ROLLING:
        return rolling_folds([period(record) for record in records])
    if split == COMBINATION:
        return grouped_folds([cell(record.workload) for record in records])
    return grouped_folds([GROUPINGS[split](record) for record in records])


def publication_inside(records: Sequence[RunRecord], left_out: LeftOut) -> Mask:
    """Whether each run is inside the interval from all other publications. ``[run]``"""
    inside: Mask = inside_intervals(records, left_out) == 1.0
    return inside


def left_out_text(left_out: LeftOut) -> str:
    """The content of the file: a line for each run, with its error under every split and with every mechanism left out."""
    lines = []
    for i, name in enumerate(left_out.ids):
        splits = {split: _kept(errors[i]) for split, errors in left_out.splits.items()}
        mechanisms = {m: _kept(errors[i]) for m, errors in left_out.mechanisms.items() if not np.isnan(errors[i])}
        lines.append(json.dumps({"id": name, **splits, "mechanisms": mechanisms}, ensure_ascii=False))
    held = [
        json.dumps({"name": a.name, "at_neutral": _pair(a.at_neutral), "switched_off": _pair(a.switched_off)})
        for a in left_out.ablations
    ]
    return '{"runs": [\n' + ",\n".join(lines) + '\n],\n"ablations": [\n' + ",\n".join(held) + "\n]}\n"


def write_left_out(path: Path, left_out: LeftOut) -> None:
    """Write the file. Raises ``OSError``."""
    path.write_text(left_out_text(left_out), encoding="utf-8")


def parse_left_out(text: str) -> LeftOut:
    """Parse the text of ``left_out_text``."""
    document = json.loads(text)
    rows, held = document["runs"], document["ablations"]
    mechanisms = dict.fromkeys(name for row in rows for name in row["mechanisms"])
    return LeftOut(
        tuple(row["id"] for row in rows),
        {split: _floats([row[split] for row in rows]) for split in SPLITS},
        {name: _floats([row["mechanisms"].get(name) for row in rows]) for name in mechanisms},
        tuple(Ablation(row["name"], _tuple(row["at_neutral"]), _tuple(row["switched_off"])) for row in held),
    )


@lru_cache(maxsize=2)
def shipped_left_out(family: str) -> LeftOut:
    """The shipped errors of ``ascend`` or ``gpu``."""
    return parse_left_out(resources.files("calibration").joinpath("shipped", f"{family}_left_out.json").read_text("utf-8"))


def _kept(error: float) -> float | None:
    return None if np.isnan(error) else round(float(error), _DIGITS)


def _pair(errors: tuple[float, float] | None) -> list[float] | None:
    return None if errors is None else [round(error, _DIGITS) for error in errors]


def _tuple(errors: list[float] | None) -> tuple[float, float] | None:
    return None if errors is None else (errors[0], errors[1])


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

"""One family's errors under nested leave-out, as `make calibration` finds them and files keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.fitting import Floats
from calibration.groups import GROUPINGS, architecture, chip, framework, period
from calibration.intervals import ErrorBand, error_bands
from calibration.mechanisms import run_mechanisms
from calibration.nested import Fold, NestedModel
from calibration.run_records import RunRecord
from calibration.splits import grouped_folds, rolling_folds
from calibration.steps import CHIP, COMBINATION, MECHANISM, STACK, Step, cell, factor_of, step_of, steps_taken

ROLLING = "rolling origin"
SPLITS = (*GROUPINGS, "combination", ROLLING)
MOST_OF = 0.5  # of the runs: without a mechanism that more of them share, too few are left to teach
_DIGITS = 4  # of a log error


@dataclass(frozen=True)
class LeftOut:
    """ln(predicted / measured) of runs that neither the fit nor any number behind it has seen, NaN where a split judges none.

    ``ids`` are the runs that teach, and behind them those in precisions that never do. ``splits`` has an entry for each of
    ``SPLITS``, ``mechanisms`` one for each that was left out, ``[run]`` each.
    """

    ids: tuple[str, ...]
    splits: Mapping[str, Floats]
    mechanisms: Mapping[str, Floats]

    def head(self, count: int) -> LeftOut:
        """The first so many runs."""
        return LeftOut(
            self.ids[:count],
            {name: errors[:count] for name, errors in self.splits.items()},
            {name: errors[:count] for name, errors in self.mechanisms.items()},
        )


def left_out_errors(model: NestedModel) -> LeftOut:
    """The errors of a family's runs under every split."""
    records = [o.record for o in model.observations]
    teaches = np.array([o.weight > 0.0 for o in model.observations])
    splits = {name: model.log_errors_of(grouped_folds([group(r) for r in records])) for name, group in GROUPINGS.items()}
    splits["combination"] = model.log_errors_of(grouped_folds([cell(r.workload) for r in records]))
    splits[ROLLING] = model.log_errors_of(rolling_folds([period(r) for r in records]))
    used = [run_mechanisms(record) for record in records]
    mechanisms = {}
    for name in sorted(frozenset().union(*used)):
        has = np.array([name in own for own in used])
        if has[teaches].mean() <= MOST_OF:
            mechanisms[name] = model.log_errors_of([Fold(~has, has)])
    return LeftOut(tuple(r.id for r in records), splits, mechanisms)


def near_log_errors(records: Sequence[RunRecord], left_out: LeftOut) -> Floats:
    """The error of each run as a new one of known hardware and software meets it. ``[run]``

    Its publication is left out, where others have its stack and its chip; else its architecture alone is.
    """
    groups = [record.origin.publication for record in records]
    found = left_out.splits["architecture"].copy()
    for publication in dict.fromkeys(groups):
        rest = [cell(r.workload) for r, other in zip(records, groups, strict=True) if other != publication]
        for i, record in enumerate(records):
            if groups[i] == publication and not steps_beyond(record, rest):
                found[i] = left_out.splits["publication"][i]
    return found


def steps_beyond(record: RunRecord, cells: Sequence[tuple[str, str, str]]) -> bool:
    """Whether the run's stack or chip is none of these cells'."""
    return any(step.kind in (STACK, CHIP) for step in steps_taken(record.workload, cells))


def family_steps(records: Sequence[RunRecord], left_out: LeftOut, near: Floats) -> tuple[Step, ...]:
    """What each kind of step has cost. A precision that teaches nothing is a mechanism that no run has shown."""

    def alone(split: str, things: Sequence[object]) -> dict[str, Floats]:
        errors = left_out.splits[split]
        return {
            str(thing): np.where([other == thing for other in things], errors, np.nan) for thing in dict.fromkeys(things)
        }

    return (
        step_of(STACK, records, alone("framework", [framework(r) for r in records]), near),
        step_of(CHIP, records, alone("chip", [chip(r) for r in records]), near),
        step_of(COMBINATION, records, alone("combination", [cell(r.workload) for r in records]), near),
        step_of(MECHANISM, records, left_out.mechanisms, near),
    )


def publication_inside(records: Sequence[RunRecord], left_out: LeftOut) -> NDArray[np.bool_]:
    """Whether each run lies inside the interval that all other publications give: bands, counts and steps are theirs. ``[run]``

    Of a publication that no other's software or hardware matches, the interval is as wide as such steps cost the others.
    """
    groups = [record.origin.publication for record in records]
    inside = np.zeros(len(records), dtype=bool)
    errors = left_out.splits["publication"]
    near = near_log_errors(records, left_out)
    for publication in dict.fromkeys(groups):
        out = np.array([group == publication for group in groups])
        rest = [record for record, own in zip(records, out, strict=True) if not own]
        if not rest:
            continue
        others = LeftOut(
            tuple(np.array(left_out.ids)[~out]),
            {name: found[~out] for name, found in left_out.splits.items()},
            {name: found[~out] for name, found in left_out.mechanisms.items()},
        )
        bands = {b.kind: b for b in error_bands(rest, near[~out].tolist(), [architecture(r) for r in rest])}
        steps = family_steps(rest, others, near[~out])
        cells = [cell(r.workload) for r in rest]
        for i in np.flatnonzero(out):
            inside[i] = _holds(records[i], float(errors[i]), bands, cells, steps)
    return inside


def _holds(
    record: RunRecord, error: float, bands: Mapping[str, ErrorBand], cells: Sequence[tuple[str, str, str]], steps: Sequence[Step]
) -> bool:
    band = bands.get(cell(record.workload)[-1]) or bands["all"]
    factor = factor_of(steps_taken(record.workload, cells), steps)
    return bool(min(band.low, 0.0) * factor <= -error <= max(band.high, 0.0) * factor)


def left_out_text(left_out: LeftOut) -> str:
    """The content of the file: one line a run, its error under every split, and under every mechanism left out."""
    lines = []
    for i, name in enumerate(left_out.ids):
        row = {"id": name, **{split: _kept(errors[i]) for split, errors in left_out.splits.items()}}
        row["mechanisms"] = {m: _kept(e[i]) for m, e in left_out.mechanisms.items() if not np.isnan(e[i])}
        lines.append(json.dumps(row, ensure_ascii=False))
    return '{"runs": [\n' + ",\n".join(lines) + "\n]}\n"


def write_left_out(path: Path, left_out: LeftOut) -> None:
    """Write the file. Raises ``OSError``."""
    path.write_text(left_out_text(left_out), encoding="utf-8")


def parse_left_out(text: str) -> LeftOut:
    """What ``left_out_text`` wrote."""
    rows = json.loads(text)["runs"]
    mechanisms = dict.fromkeys(name for row in rows for name in row["mechanisms"])
    return LeftOut(
        tuple(row["id"] for row in rows),
        {split: _floats([row[split] for row in rows]) for split in SPLITS},
        {name: _floats([row["mechanisms"].get(name) for row in rows]) for name in mechanisms},
    )


@lru_cache(maxsize=2)
def shipped_left_out(family: str) -> LeftOut:
    """What `make calibration` found for ``ascend`` or ``gpu``."""
    return parse_left_out(resources.files("calibration").joinpath("shipped", f"{family}_left_out.json").read_text("utf-8"))


def _kept(error: float) -> float | None:
    return None if np.isnan(error) else round(float(error), _DIGITS)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

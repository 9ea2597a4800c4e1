"""Prints the errors of the runs that teach nothing, by kind, beside their first prediction and the release before (`make blind`).

``calibration/runs/held_out.jsonl`` has the blind runs: nothing is fitted to them, and whoever looks at the error of one to mend
something moves it to ``opened.jsonl``. ``blind_predictions.json`` keeps the first prediction of each run, which is never made
again, and that of the release before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.calibrations.constants import constants_for, interval_of
from calibration.files.published_errors import rounded
from calibration.intervals.step_time import LEARNING_PRECISIONS
from calibration.records.training import RunRecord, read_run_records
from calibration.validation.predictions import validate

RUNS = ROOT / "calibration/runs"
KEPT = RUNS / "blind_predictions.json"
# Median difference of the same configuration, published twice, by family [runs-ascend; runs-gpu]. The mean error of n runs moves
# by that over n^(1/2) for no reason of the model's.
REPEAT = {"ascend": 0.046, "gpu": 0.028}
GENERATIONS = {"v100": "Volta", "a100": "Ampere", "h100": "Hopper", "h200": "Hopper", "h800": "Hopper", "b200": "Blackwell",
               "b300": "Blackwell", "gb200": "Blackwell", "gb300": "Blackwell", "mi350x": "AMD", "mi355x": "AMD"}  # fmt: skip
ALL = "all"


def generation(record: RunRecord) -> str:
    """Name of the devices' generation; ``Ascend`` for all of its own."""
    profile = record.workload.cluster.profile
    return "Ascend" if profile.family == "ascend" else GENERATIONS[profile.name.partition("-")[0]]


def kind_of(record: RunRecord) -> str:
    """Devices, model and width of matmuls: the kinds whose blind errors are shown apart."""
    model = "dense" if record.workload.model.moe is None else "MoE"
    narrow = record.workload.training.precision not in LEARNING_PRECISIONS
    return f"{generation(record)} {model}" + (", 8 and 4 bits" if narrow else "")


@dataclass(frozen=True)
class Prediction:
    """A predicted step time with its 80 % interval [s]."""

    step_time_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class BlindErrors:
    """Errors of some runs: absolute values of predicted / measured - 1, the signed median, and the share inside the interval."""

    count: int
    median: float
    mean: float
    bias: float
    inside: float

    @classmethod
    def of(cls, records: Sequence[RunRecord], predicted: Sequence[Prediction]) -> BlindErrors:
        measured = [float(record.measured.step_time_s or np.nan) for record in records]
        errors = np.array([p.step_time_s / m - 1.0 for p, m in zip(predicted, measured, strict=True)])
        inside = [p.low_s <= m <= p.high_s for p, m in zip(predicted, measured, strict=True)]
        size = np.abs(errors)
        return cls(len(errors), float(np.median(size)), float(size.mean()), float(np.median(errors)), float(np.mean(inside)))


class BlindRuns:
    """The runs of a file, with the predictions that are kept of them and those of today."""

    def __init__(self, name: str = "held_out") -> None:
        read = read_run_records(RUNS / f"{name}.jsonl")
        self.records = [record for record in read if isinstance(record, RunRecord)]
        self.num_refused = len(read) - len(self.records)
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
        self.release: str = kept["release"]
        self._kept: dict[str, dict[str, Any]] = kept["runs"]

    @cached_property
    def now(self) -> list[Prediction]:
        return predictions(self.records)

    @cached_property
    def first(self) -> list[Prediction]:
        """Predicted before anyone looked at an error."""
        return [Prediction(*self._kept[record.id]["first"]) for record in self.records]

    @cached_property
    def before(self) -> list[Prediction]:
        """Predicted by the release before."""
        return [Prediction(*self._kept[record.id]["release"]) for record in self.records]

    def some(self, wanted: Callable[[RunRecord], bool]) -> dict[str, BlindErrors]:
        """Errors of the chosen runs: ``first``, ``before`` and ``now``."""
        chosen = [i for i, record in enumerate(self.records) if wanted(record)]
        own = [self.records[i] for i in chosen]
        columns = {"first": self.first, "before": self.before, "now": self.now}
        return {name: BlindErrors.of(own, [column[i] for i in chosen]) for name, column in columns.items()}

    def kinds(self) -> dict[str, dict[str, BlindErrors]]:
        """Errors of every kind and of all runs."""
        names = sorted({kind_of(record) for record in self.records})
        found = {name: self.some(lambda record, name=name: kind_of(record) == name) for name in names}
        return {**found, ALL: self.some(lambda _: True)}


def predictions(records: Sequence[RunRecord]) -> list[Prediction]:
    """Predictions of the code as it is, with the shipped constants."""
    rows = validate(records, constants_for, interval_of).rows
    return [Prediction(*(float(value or np.nan) for value in (r.predicted_step_time_s, r.low_s, r.high_s))) for r in rows]


def noise(kind: str, count: int) -> float:
    """What the mean error of this many runs may differ by for no reason of the model's."""
    return REPEAT["ascend" if kind.startswith("Ascend") else "gpu"] / count**0.5


def worsened(kinds: dict[str, dict[str, BlindErrors]]) -> list[str]:
    """Kinds whose mean error grew by more than its noise since the release before."""
    return [name for name, found in kinds.items() if found["now"].mean - found["before"].mean > noise(name, found["now"].count)]


def pair(errors: BlindErrors) -> str:
    return f"{100 * errors.median:.1f} / {100 * errors.mean:.1f}"


def table(runs: BlindRuns) -> str:
    """Markdown: median / mean error, bias and share inside the interval of each kind."""
    header = ["", "runs", "first prediction", "its bias", "inside", runs.release, "inside", "now", "bias", "inside", "noise"]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for name, found in runs.kinds().items():
        first, before, now = found["first"], found["before"], found["now"]
        cells = [str(now.count), pair(first), f"{100 * first.bias:+.1f}", share(first), pair(before), share(before)]
        lines.append([name, *cells, pair(now), f"{100 * now.bias:+.1f}", share(now), f"{100 * noise(name, now.count):.1f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def share(errors: BlindErrors) -> str:
    return f"{100 * errors.inside:.0f} %"


def report() -> str:
    """Both tables, as ``tests/golden/blind.md`` pins them."""
    blind, opened = BlindRuns(), BlindRuns("opened")
    return (
        f"Blind: nothing was fitted to these runs, and no error of one was looked at to mend something.\n\n{table(blind)}\n"
        f"Opened: nothing was fitted to these either, but a rule of reading was mended after a look at them.\n\n{table(opened)}"
    )


def write_kept(release: str | None) -> None:
    """Keep first predictions of runs that have none; with ``release``, all predictions of today as those of that release."""
    document = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {"release": release, "runs": {}}
    kept: dict[str, dict[str, Any]] = document["runs"]
    for name in ("held_out", "opened"):
        records = [record for record in read_run_records(RUNS / f"{name}.jsonl") if isinstance(record, RunRecord)]
        for record, found in zip(records, predictions(records), strict=True):
            today = [rounded(value) for value in (found.step_time_s, found.low_s, found.high_s)]
            own = kept.setdefault(record.id, {"on": datetime.now(UTC).date().isoformat(), "first": today, "release": today})
            if release is not None:
                own["release"] = today
    KEPT.write_text(kept_text(release or document["release"], kept), encoding="utf-8")


def kept_text(release: str, kept: dict[str, dict[str, Any]]) -> str:
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(own)}" for name, own in sorted(kept.items()))
    return f'{{"release": {json.dumps(release)}, "runs": {{\n{lines}\n}}}}\n'


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the first predictions of runs that have none")
    parser.add_argument("--release", help="at a release: keep the predictions of today as those of this version")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    if chosen.keep or chosen.release:
        write_kept(chosen.release)
    print(report())
    worse = worsened(BlindRuns().kinds())
    if worse:
        sys.exit(f"worse than {BlindRuns().release} by more than noise: {', '.join(worse)}")


if __name__ == "__main__":
    main()

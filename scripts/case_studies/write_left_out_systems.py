"""Writes the errors of post-training steps left out by system into docs/post-training.md and its Chinese page.

``rollout_device_factor`` and ``forward_factor`` rest on runs. They are fitted again without the steps of each system,
which are then predicted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.rl.records import Assumed, profile_of
from app.rl.validation import validation_document
from calibration.records.post_training import PostTrainingRecord, read_post_training_records
from cost_models.post_training import constants
from cost_models.shapes.traits import device_traits
from scripts.case_studies.write_post_training import RUNS, SYSTEMS, system_of

START, END = "<!-- left out: written by scripts/case_studies/write_left_out_systems.py (`make docs`) -->\n", "<!-- /left out -->"
ROLLOUT_FACTORS = (1.0, 1.25, 1.5, 1.75, 2.0)
FORWARD_FACTORS = (1.0, 1.45)

Choice = tuple[float, float]


class LeftOut(NamedTuple):
    """Steps of a system or of several, and the factors fitted without it.

    ``factor`` is that within which four measured steps in five lie of their prediction.
    """

    name: str
    steps: int
    factors: Choice | None
    median_error_fraction: float
    factor: float


class Page(NamedTuple):
    """A page, the header of its table, and its names of the rows."""

    path: Path
    header: str
    names: dict[str, str]


PAGES = (
    Page(
        ROOT / "docs/post-training.md",
        "| left out | steps | rollout_device_factor | forward_factor | median error | four in five within a factor of |",
        {
            **SYSTEMS,
            "all": "all",
            "gpu": "all on GPUs",
            "ascend": "all on Ascend",
            "told": "all with published lengths of answers",
            "untold": "all without, on GPUs",
        },
    ),
    Page(
        ROOT / "docs/zh/post-training.md",
        "| 留出 | 步数 | rollout_device_factor | forward_factor | 误差中位数 | 五分之四落在几倍之内 |",
        {
            **SYSTEMS,
            "pangu": "CloudMatrix384 上的 Pangu",
            "all": "全部",
            "gpu": "全部 GPU 上的",
            "ascend": "全部昇腾上的",
            "told": "全部公布了回答长度的",
            "untold": "全部未公布长度的，GPU",
        },
    ),
)


def errors(records: list[PostTrainingRecord]) -> dict[Choice, dict[str, tuple[str, float]]]:
    """Unit and error of every step, for every choice of the constants."""
    found = {}
    for rollout in ROLLOUT_FACTORS:
        for forward in FORWARD_FACTORS:
            values = {"rollout_device_factor": rollout, "forward_factor": forward}
            changed = tuple(replace(one, value=values.get(one.name, one.value)) for one in constants.CONSTANTS)
            with mock.patch.object(constants, "CONSTANTS", changed):
                rows = validation_document(records).rows
            found[rollout, forward] = {
                row.id: (row.unit or "", row.error_fraction) for row in rows if row.error_fraction is not None
            }
    return found


def left_out() -> list[LeftOut]:
    """Every system; then all steps, and those of one kind of device or source, each predicted without its system."""
    records = {
        record.id: record
        for record in read_post_training_records(RUNS)
        if isinstance(record, PostTrainingRecord) and record.kind == "rl_step"
    }
    found = errors(list(records.values()))
    systems: dict[str, list[str]] = defaultdict(list)
    for name in next(iter(found.values())):
        systems[system_of(name)].append(name)
    predicted: dict[str, tuple[str, float]] = {}
    rows = []
    for system, names in systems.items():
        choice = _fitted(found, [name for others in systems.values() for name in others if name not in names])
        predicted |= {name: found[choice][name] for name in names}
        rows.append(_row(system, [predicted[name][1] for name in names], choice))
    ascend = {name: device_traits(profile_of(records[name], Assumed())).priors == "ascend" for name in predicted}
    told = {name: records[name].mean_response is not None for name in predicted}
    kinds: dict[str, Callable[[str], bool]] = {
        "all": lambda _: True,
        "gpu": lambda name: not ascend[name],
        "ascend": lambda name: ascend[name],
        "told": lambda name: told[name],
        "untold": lambda name: not told[name] and not ascend[name],
    }
    return rows + [_row(kind, [predicted[name][1] for name in predicted if of(name)], None) for kind, of in kinds.items()]


def table(page: Page, rows: Iterable[LeftOut]) -> str:
    """The table in the language of the page."""
    lines = [page.header, "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        factors = " | ".join(f"{factor:g}" for factor in row.factors) if row.factors else "|"
        lines.append(f"| {page.names[row.name]} | {row.steps} | {factors} | {row.median_error_fraction:.1%} | {row.factor:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes both pages."""
    rows = left_out()
    for page in PAGES:
        before, rest = page.path.read_text(encoding="utf-8").split(START)
        text = before + START + table(page, rows) + END + rest.split(END)[1]
        page.path.write_text(text, encoding="utf-8")


def _fitted(found: dict[Choice, dict[str, tuple[str, float]]], names: list[str]) -> Choice:
    """The choice with the least median error of the named steps."""

    def miss(choice: Choice) -> float:
        return float(np.median([abs(np.log1p(found[choice][name][1])) for name in names]))

    return min(found, key=miss)


def _row(name: str, errors: list[float], factors: Choice | None) -> LeftOut:
    distances = np.abs(np.log1p(errors))
    return LeftOut(name, len(errors), factors, float(np.median(np.abs(errors))), float(np.exp(np.quantile(distances, 0.8))))


if __name__ == "__main__":
    main()

"""Errors of post-training steps left out by system: ``python scripts/calibration/post_training_left_out.py``.

``rollout_device_factor`` and ``forward_factor`` rest on runs. They are fitted again without the steps of each system and
compared with them. Nothing is written; docs/post-training.md quotes the output.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.rl.validation import validation_document
from calibration.records.post_training import PostTrainingRecord, read_post_training_records
from cost_models.post_training import constants
from scripts.pages.text import table

RUNS = ROOT / "calibration/runs/post_training/rl.jsonl"
ROLLOUT_FACTORS = (1.0, 1.25, 1.5, 1.75, 2.0)
FORWARD_FACTORS = (1.0, 1.45)

Choice = tuple[float, float]


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


def main() -> None:
    """Prints the errors of each system, and of all."""
    records = [
        record
        for record in read_post_training_records(RUNS)
        if isinstance(record, PostTrainingRecord) and record.kind == "rl_step"
    ]
    found = errors(records)
    systems: dict[str, list[str]] = defaultdict(list)
    for name in next(iter(found.values())):
        systems[name.split("-")[0]].append(name)
    left_out: dict[str, tuple[str, float]] = {}
    rows = []
    for system, names in systems.items():
        others = [name for listed in systems.values() for name in listed if name not in names]

        def miss(choice: Choice, others: list[str] = others) -> float:
            return float(np.median([abs(np.log1p(found[choice][name][1])) for name in others]))

        choice = min(found, key=miss)
        left_out |= {name: found[choice][name] for name in names}
        rows.append(
            [system, str(len(names)), f"{choice[0]:g}", f"{choice[1]:g}", _median(found[choice][name][1] for name in names)]
        )
    rows.append(["all", str(len(left_out)), "", "", _median(error for _, error in left_out.values())])
    timed = [error for unit, error in left_out.values() if unit == "s"]
    rows.append(["all with a step time", str(len(timed)), "", "", _median(timed)])
    print(table(["left out", "steps", "rollout_device_factor", "forward_factor", "median error"], rows))


def _median(values: object) -> str:
    return f"{np.median(np.abs(np.array(list(values)))):.1%}"  # type: ignore[call-overload]


if __name__ == "__main__":
    main()

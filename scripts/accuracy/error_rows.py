"""Writes calibration/shipped/*_errors.json: the prediction of every published run, also as if its publication were unknown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.calibrations.constants import constants_for, interval_of
from calibration.files.published_errors import PREDICTED, rounded
from calibration.records.training import RunRecord, read_run_records
from calibration.validation.predictions import ValidationRow, validate
from scripts.accuracy.figures import FamilyAccuracy


def rows_of(family: FamilyAccuracy) -> list[dict[str, Any]]:
    """One row for each published run, in the order of the file; left-out figures for runs that the fit used."""
    left_out = {
        record.id: (float(np.expm1(of_architecture)), float(np.expm1(of_publication)), bool(inside))
        for record, of_architecture, of_publication, inside in zip(
            family.used, family.splits.architecture, family.publication, family.inside, strict=True
        )
    }
    records = read_run_records(ROOT / "calibration/runs" / f"{family.family}.jsonl")
    report = validate(records, constants_for, interval_of)
    return [
        _row(
            row,
            record.workload.software.stack if isinstance(record, RunRecord) else None,
            left_out.get(row.id, (None, None, None)),
        )
        for record, row in zip(records, report.rows, strict=True)
    ]


def _row(row: ValidationRow, stack: str | None, left_out: tuple[float | None, float | None, bool | None]) -> dict[str, Any]:
    predicted = {name: rounded(getattr(row, name)) for name in PREDICTED}
    return {
        "id": row.id,
        "category": row.category,
        "stack": stack,
        **predicted,
        "left_out_error_fraction": rounded(left_out[0]),
        "publication_left_out_error_fraction": rounded(left_out[1]),
        "left_out_inside": left_out[2],
        "refused": row.refused,
        "warnings": list(row.warnings),
    }


def write_rows(family: FamilyAccuracy) -> None:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows_of(family))
    text = f'{{"calibration": "{family.calibration.fingerprint}", "runs": [\n{lines}\n]}}\n'
    (ROOT / "calibration/shipped" / f"{family.family}_errors.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in ("ascend", "gpu"):
        write_rows(FamilyAccuracy(name))

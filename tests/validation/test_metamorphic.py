"""What must not matter does not, and what is nearly the same is predicted nearly the same."""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration.records.training import RefusedRecord, RunRecord, parse_run_record
from calibration.validation.predictions import ValidationReport, predict, validate
from cost_models.constants import Constants
from cost_models.shapes.workload import ModelShape, Workload

RUNS = Path(__file__).resolve().parents[2] / "calibration" / "runs"
DESCRIPTIVE = ("id", "source", "notes", "tier", "suspect", "is_latest_for_config", "config_complete", "ranking_group")
ConstantsFor = Callable[[Workload], Constants]


def predictions(rows: Iterable[dict[str, Any]], constants_for: ConstantsFor) -> list[tuple[float | None, float | None]]:
    return predicted(validate([parse_run_record(row) for row in rows], constants_for))


def predicted(report: ValidationReport) -> list[tuple[float | None, float | None]]:
    return [(row.predicted_step_time_s, row.predicted_peak_memory_bytes) for row in report.rows]


EVERY = {"ascend": 1, "gpu": 5}  # of how many rows one is taken


@pytest.fixture(scope="module")
def rows(family: str) -> list[dict[str, Any]]:
    lines = (RUNS / f"{family}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines[:: EVERY[family]]]


@pytest.fixture(scope="module")
def plain(family: str, report: ValidationReport) -> list[tuple[float | None, float | None]]:
    return predicted(report)[:: EVERY[family]]


def of_peak(row: dict[str, Any]) -> dict[str, Any]:
    """What a measurement says of which peak it is; the bytes are any."""
    measured = row["measured"]
    basis = {"peak_memory_basis": measured.get("peak_memory_basis"), "peak_memory_last_rank_bytes": None}
    if measured.get("peak_memory_last_rank_bytes") is None:
        return basis
    return {**basis, "peak_memory_last_rank_bytes": 1.0, "peak_memory_bytes": None}


def stripped(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in DESCRIPTIVE}
    kept["model"] = {key: value for key, value in row["model"].items() if key not in ("name", "family")}
    kept["measured"] = of_peak(row)
    return kept


def test_removing_names_sources_and_measurements_changes_no_bit(
    rows: list[dict[str, Any]], plain: list[tuple[float | None, float | None]], constants_for: ConstantsFor
) -> None:
    assert predictions(map(stripped, rows), constants_for) == plain


def test_swapping_names_sources_and_measurements_changes_no_bit(
    rows: list[dict[str, Any]], plain: list[tuple[float | None, float | None]], constants_for: ConstantsFor
) -> None:
    others = random.Random(0).sample(rows, len(rows))
    swapped = [
        {
            **row,
            **{key: other.get(key) for key in DESCRIPTIVE},
            "model": {**row["model"], "name": other["model"]["name"], "family": other["model"]["family"]},
            "measured": {**other["measured"], **of_peak(row)},
        }
        for row, other in zip(rows, others, strict=True)
    ]
    assert predictions(swapped, constants_for) == plain


def test_neither_the_order_of_the_rows_nor_what_is_beside_them_changes_a_bit(
    rows: list[dict[str, Any]], plain: list[tuple[float | None, float | None]], constants_for: ConstantsFor
) -> None:
    order = random.Random(1).sample(range(len(rows)), len(rows) // 2)
    assert predictions([rows[i] for i in order], constants_for) == [plain[i] for i in order]


def neighbours(model: ModelShape, *, has_layout: bool) -> list[tuple[ModelShape, float]]:
    """Shapes one step away, and by what share that step changes the work of the busiest stage at most."""
    width = 128 / model.hidden_size
    shapes = [(replace(model, hidden_size=model.hidden_size + step), width) for step in (-128, 128)]
    if not has_layout:
        shapes += [(replace(model, num_layers=model.num_layers + step), 1 / model.num_layers) for step in (-1, 1)]
    return shapes


def test_one_step_in_the_shape_never_makes_a_prediction_jump(
    records: list[RunRecord | RefusedRecord], constants_for: ConstantsFor
) -> None:
    jumps = []
    for record in (r for r in records[::4] if isinstance(r, RunRecord)):
        constants = constants_for(record.workload)
        here = float(predict(record, constants)[0].step_time_s[0])
        strategy, model = record.strategy, record.workload.model
        virtual_stages = strategy.pp * strategy.vpp
        for shape, change in neighbours(model, has_layout=strategy.layer_layout is not None):
            if shape.num_layers < virtual_stages:
                continue
            # A layer more or less is one on each of the stages that wait for the fullest, times the chunks of a rank.
            limit = 0.02 + change * (2.0 if shape.hidden_size != model.hidden_size else 1.1 * virtual_stages)
            moved = replace(record, workload=replace(record.workload, model=shape))
            there = float(predict(moved, constants)[0].step_time_s[0])
            if not 1 / (1 + limit) < there / here < 1 + limit:
                jumps.append(
                    (record.id, shape.hidden_size - model.hidden_size, shape.num_layers - model.num_layers, there / here)
                )
    assert jumps == []


def test_predictions_are_positive_and_finite(report: ValidationReport) -> None:
    for row in report.rows:
        if row.refused is None:
            assert row.predicted_step_time_s is not None
            assert 0.0 < row.predicted_step_time_s < 1e5
            assert row.predicted_peak_memory_bytes is not None
            assert 1e8 < row.predicted_peak_memory_bytes < 1e13

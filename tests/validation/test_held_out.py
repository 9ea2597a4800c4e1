"""Runs of publications that nothing was fitted to or tuned on: they are read whole, stay apart, and their error is bounded."""

import json
from pathlib import Path

import pytest

from app.calibrations.constants import interval_of
from calibration.files.calibrations import calibration_for
from calibration.records.training import RunRecord, read_run_records
from calibration.splits.groups import publication
from calibration.validation.predictions import ValidationReport, validate
from tests.validation.conftest import RUNS

PATH = RUNS / "held_out.jsonl"
# Median and mean absolute error, and the share that may lie outside its interval: as found, 10.3 and 13.6 % with 26 % outside,
# with a little room. Predicted blind they were 11.6 and 14.3 % with 28 %; a change that is fitted to other runs and makes these
# worse deserves a look.
LIMITS = (0.112, 0.146, 0.3)


@pytest.fixture(scope="module")
def held_out() -> ValidationReport:
    return validate(read_run_records(PATH), lambda workload: calibration_for(workload).constants, interval_of)


def records(path: Path) -> list[RunRecord]:
    return [record for record in read_run_records(path) if isinstance(record, RunRecord)]


def test_every_row_is_read_with_all_of_its_flags(held_out: ValidationReport) -> None:
    assert held_out.num_refused == 0
    assert [row.id for row in held_out.rows if row.flags.not_understood] == []
    assert len({row.id for row in held_out.rows}) == len(held_out.rows) > 150


def test_no_publication_of_it_teaches() -> None:
    taught = {publication(record) for family in ("ascend", "gpu") for record in records(RUNS / f"{family}.jsonl")}
    assert "" not in {publication(record) for record in records(PATH)}
    assert taught.isdisjoint({publication(record) for record in records(PATH)})


def test_rows_say_where_they_stand_and_when() -> None:
    for line in PATH.read_text(encoding="utf-8").splitlines():
        source = json.loads(line)["source"]
        assert source["url"].startswith("https://"), line
        assert all(source[key] for key in ("locator", "date", "title")), line


def test_errors_stay_where_they_were_found(held_out: ValidationReport) -> None:
    found = held_out.summary["all"]
    median, mean, outside = LIMITS
    assert found.median_abs_error_fraction is not None
    assert found.median_abs_error_fraction < median
    assert found.mean_abs_error_fraction is not None
    assert found.mean_abs_error_fraction < mean
    assert found.coverage_fraction is not None
    assert found.coverage_fraction > 1 - outside

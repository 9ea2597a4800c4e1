"""The measured runs, read once, and the constants that the product ships."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from calibration.files.calibrations import calibration_for
from calibration.records.training import RefusedRecord, RunRecord, read_run_records
from calibration.validation.predictions import ValidationReport, validate
from cost_models.constants import Constants
from cost_models.shapes.workload import Workload

RUNS = Path(__file__).resolve().parents[2] / "calibration" / "runs"


@pytest.fixture(scope="session")
def constants_for() -> Callable[[Workload], Constants]:
    return lambda workload: calibration_for(workload).constants


@pytest.fixture(scope="session", params=["ascend", "gpu"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache  # not by the fixtures, which forget a family when a file asks for the other one
def _records(family: str) -> list[RunRecord | RefusedRecord]:
    return read_run_records(RUNS / f"{family}.jsonl")


@cache
def _report(family: str) -> ValidationReport:
    return validate(_records(family), lambda workload: calibration_for(workload).constants)


@pytest.fixture(scope="session")
def records(family: str) -> list[RunRecord | RefusedRecord]:
    return _records(family)


@pytest.fixture(scope="session")
def report(family: str) -> ValidationReport:
    return _report(family)

"""Layouts that ran out of memory, as their authors report: none of them is said to fit."""

import pytest

from app.calibrations.constants import constants_for
from calibration.records.training import RunRecord, read_run_records
from calibration.validation.predictions import predict
from tests.validation.conftest import RUNS

RECORDS = read_run_records(RUNS / "out_of_memory.jsonl")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.id))
def test_what_ran_out_of_memory_does_not_fit(record: RunRecord) -> None:
    assert record.measured.step_time_s is None
    found, inferred = predict(record, constants_for(record.workload))
    assert inferred is None
    assert not found.fits[0]

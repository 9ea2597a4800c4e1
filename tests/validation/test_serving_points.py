"""Published serving points, none of which moved a number of the model."""

import math
from pathlib import Path
from typing import Any

import pytest

from app.serving.records import read_serving_records, serving_point
from documents.errors import InputError

RECORDS = read_serving_records(Path(__file__).resolve().parents[2] / "calibration/runs/serving.jsonl")
COMPARED = [record for record in RECORDS if "compared" in record]
# A mean of a day of production, its troughs included: full passes lie above it.
LOWER_BOUNDS = {"deepseek-online-prefill"}


@pytest.mark.parametrize("record", COMPARED, ids=lambda record: record["id"])
def test_points_are_met_within_a_fifth(record: dict[str, Any]) -> None:
    point = serving_point(record)
    assert point.ratio > 0.8
    if record["id"] not in LOWER_BOUNDS:
        assert point.ratio < 1.2


def test_plans_of_one_service_are_in_order() -> None:
    points = [serving_point(record) for record in COMPARED if record["id"].startswith("cm384-decode")]
    assert len(points) == 5
    by_measured = sorted(points, key=lambda point: point.measured)
    assert by_measured == sorted(points, key=lambda point: point.predicted)


def test_the_mean_error_is_small() -> None:
    points = [serving_point(record) for record in COMPARED if record["id"] not in LOWER_BOUNDS]
    errors = sorted(abs(math.log(point.ratio)) for point in points)
    assert errors[len(errors) // 2] < 0.1


def test_a_record_without_a_job_says_why() -> None:
    refused = [record for record in RECORDS if "compared" not in record]
    assert len(refused) + len(COMPARED) == 28
    for record in refused:
        with pytest.raises(InputError, match=record["id"]):
            serving_point(record)

"""``/v1/accuracy``: every published run with its source, and the constants that the product ships."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.calibrations.accuracy.schemas import AccuracyDocument
from calibration.files.calibrations import FAMILIES, shipped_calibration

RUNS = Path(__file__).resolve().parents[2] / "calibration/runs"
PUBLISHED = {
    row["id"]: row for family in FAMILIES for row in map(json.loads, (RUNS / f"{family}.jsonl").read_text("utf-8").splitlines())
}


@pytest.fixture
def document(api: TestClient) -> dict[str, Any]:
    answer = api.get("/v1/accuracy")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    AccuracyDocument.model_validate(found)
    return found


def test_every_published_run_is_there_with_its_source_and_error(document: dict[str, Any]) -> None:
    assert [run["id"] for run in document["runs"]] == list(PUBLISHED)
    for run in document["runs"]:
        published = PUBLISHED[run["id"]]
        assert run["source"]["url"] == published["source"]["url"]
        assert run["measured_step_time_s"] == published["measured"]["step_time_s"]
        assert run["num_devices"] == published["cluster"]["num_devices"]
        assert (run["predicted_step_time_s"] is None) == (run["refused"] is not None)
        if run["error_fraction"] is not None:
            assert run["low_s"] <= run["predicted_step_time_s"] <= run["high_s"]
            expected = run["predicted_step_time_s"] / run["measured_step_time_s"] - 1
            assert run["error_fraction"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_runs_were_left_out_once_as_taught_the_constants(document: dict[str, Any], family: str) -> None:
    taught = [r for r in document["runs"] if r["family"] == family and r["publication_left_out_error_fraction"] is not None]
    assert len(taught) == shipped_calibration(family).num_runs
    assert all(run["is_latest"] and run["suspect"] is None for run in taught)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shipped_constants_are_told_with_what_they_rest_on(document: dict[str, Any], family: str) -> None:
    shipped = shipped_calibration(family)
    (told,) = (c for c in document["calibrations"] if c["family"] == family)
    assert told["id"] == shipped.fingerprint
    assert {c["name"]: c["value"] for c in told["constants"]} == {f.name: f.value for f in shipped.fitted}
    assert sum(c["num_runs"] for c in told["coverage"]) == shipped.num_runs
    assert all(band["low"] < 1 < band["high"] for band in told["bands"])


def test_what_the_client_has_is_not_sent_again(api: TestClient) -> None:
    tag = api.get("/v1/accuracy").headers["etag"]
    assert api.get("/v1/accuracy", headers={"If-None-Match": tag}).status_code == 304

"""``/v1/calibrations``: constants learned from stored runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.calibrations import fit, service
from app.calibrations.outcome import learned
from app.calibrations.schemas import CalibrationDocument, CalibrationSummary
from app.text.json_documents import plain
from calibration.files.calibrations import parse_calibration, read_calibration, shipped_calibration
from calibration.procedure.calibrate import calibrate_site
from calibration.records.training import parse_run_record
from tests.api.run_records import HARDWARE, STACK, usable_records

Refused = Callable[..., dict[str, Any]]
BODY = {"hardware": HARDWARE, "stack": STACK}


@pytest.fixture
def records(api: TestClient) -> list[dict[str, Any]]:
    found = usable_records(4)
    assert api.post("/v1/runs", json={"runs": found}).json()["stored"] == 4
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_calibration_is_that_of_the_command(api: TestClient, records: list[dict[str, Any]], tmp_path: Path) -> None:
    response = api.post("/v1/calibrations", json=BODY)
    assert response.status_code == 201, response.text
    document = response.json()
    CalibrationDocument.model_validate(document)
    newest_first = [parse_run_record(record, number) for number, record in enumerate(records[::-1], start=1)]
    command = document["calibration"]["command"]
    outcome = calibrate_site(newest_first, shipped_calibration("ascend"), **BODY, command=command)
    for name, value in plain(learned(outcome)).items():
        assert document[name] == value, name
    assert document["errors"]["left_out"] != document["errors"]["before"]
    path = tmp_path / "own.json"
    assert api.get(response.headers["Location"]).json() == document
    path.write_text(json.dumps(document["calibration"]))
    assert read_calibration(path).fingerprint == document["id"] == outcome.calibration.fingerprint


def test_repeating_it_stores_nothing_twice(api: TestClient, records: list[dict[str, Any]]) -> None:
    assert records
    first, second = (api.post("/v1/calibrations", json=BODY).json() for _ in range(2))
    assert first == second
    items = api.get("/v1/calibrations").json()["items"]
    assert [CalibrationSummary.model_validate(item).id for item in items] == [first["id"]]


def test_only_runs_of_the_stack_are_fitted_and_the_newest_count(
    api: TestClient, records: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**records[0], "software": {**records[0]["software"], "framework": "MindFormers"}}
    api.post("/v1/runs", json={"runs": [other]})
    monkeypatch.setattr(service, "MAX_RUNS", 2)
    document = api.post("/v1/calibrations", json=BODY).json()
    assert [row["id"] for row in document["rows"]] == [record["id"] for record in records[:1:-1]]
    assert document["refused"] == []
    assert any("newest 2" in sentence for sentence in document["warnings"])
    assert parse_calibration(json.dumps(document["calibration"]), "answer").stack == STACK


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({}, "#/hardware", "missing"),
        ({"hardware": HARDWARE}, "#/stack", "missing"),
        ({"hardware": "atlas-900-a2-pod", "stack": STACK}, "#/hardware", "did you mean 'atlas-900-a2-podc'"),
        ({"hardware": "site.yaml", "stack": STACK}, "#/hardware", "hardware profile"),
        ({"hardware": HARDWARE, "stack": "nemo"}, "#/stack", "mindspeed-llm"),
        ({"hardware": 3, "stack": STACK}, "#/hardware", "3"),
        ({**BODY, "runs": []}, "#/runs", "no known key"),
        (BODY, "#/hardware", "POST /v1/runs"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_its_place(
    api: TestClient, refused: Refused, body: dict[str, Any], pointer: str, said: str
) -> None:
    problem = refused(api.post("/v1/calibrations", json=body), 422, "invalid-input")
    assert problem["pointer"] == pointer
    assert said in problem["detail"]


def test_runs_that_teach_nothing_are_refused(api: TestClient, records: list[dict[str, Any]], refused: Refused) -> None:
    unmeasured = {**records[0], "cluster": {**records[0]["cluster"], "hardware": "atlas-800t-a2"}, "measured": {}}
    assert api.post("/v1/runs", json={"runs": [unmeasured]}).json()["stored"] == 1
    problem = refused(api.post("/v1/calibrations", json={**BODY, "hardware": "atlas-800t-a2"}), 422, "invalid-input")
    assert "measured.step_time_s is missing" in problem["detail"]


def test_a_fit_that_takes_too_long_is_given_up_and_the_next_may_start(
    api: TestClient, records: list[dict[str, Any]], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert records
    monkeypatch.setattr(fit, "MAX_FIT_S", -1.0)
    problem = refused(api.post("/v1/calibrations", json=BODY), 422, "invalid-input")
    assert "meshplan calibrate" in problem["detail"]
    monkeypatch.undo()
    assert api.post("/v1/calibrations", json=BODY).status_code == 201


def test_one_fit_runs_at_a_time(api: TestClient, records: list[dict[str, Any]], refused: Refused) -> None:
    assert records
    with fit._fitting:
        response = api.post("/v1/calibrations", json=BODY)
    refused(response, 503, "unavailable")
    assert response.headers["Retry-After"] == "10"


@pytest.mark.parametrize("name", ["0123456789ab", "nothing", "a" * 500, "%00"])
def test_unknown_calibrations_are_not_found(api: TestClient, refused: Refused, name: str) -> None:
    refused(api.get(f"/v1/calibrations/{name}"), 404, "not-found")


def test_lists_are_paged(api: TestClient, records: list[dict[str, Any]]) -> None:
    first = api.post("/v1/calibrations", json=BODY).json()
    api.post("/v1/runs", json={"runs": [{**records[0], "note": "once more"}]})
    second = api.post("/v1/calibrations", json=BODY).json()
    page = api.get("/v1/calibrations", params={"limit": 1}).json()
    assert [item["id"] for item in page["items"]] == [second["id"]]
    rest = api.get("/v1/calibrations", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert [item["id"] for item in rest["items"]] == [first["id"]]
    assert rest["next_cursor"] is None

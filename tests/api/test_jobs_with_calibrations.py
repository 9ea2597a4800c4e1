"""Jobs that name a stored calibration: estimates, checks and studies are priced with it."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers.schemas import EstimateDocument
from app.calibrations.constants import constants_for
from app.storage.session import Database
from app.storage.tables import Calibration
from calibration.files.calibrations import parse_calibration
from calibration.records.training import parse_run_record
from calibration.validation.predictions import validate
from tests.api.run_records import HARDWARE, STACK, usable_records

Refused = Callable[..., dict[str, Any]]
STRATEGY = {"tp": 8}


@pytest.fixture
def calibration(api: TestClient) -> dict[str, Any]:
    assert api.post("/v1/runs", json={"runs": usable_records(2)}).json()["stored"] == 2
    response = api.post("/v1/calibrations", json={"hardware": HARDWARE, "stack": STACK})
    assert response.status_code == 201, response.text
    document: dict[str, Any] = response.json()
    return document


@pytest.fixture
def job(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "cluster": {"hardware": HARDWARE, "num_devices": 8}}


def with_calibration(job: dict[str, Any], name: Any) -> dict[str, Any]:
    return {**job, "software": {"stack": STACK, "calibration": name}}


def test_estimates_are_priced_with_it(api: TestClient, job: dict[str, Any], calibration: dict[str, Any]) -> None:
    own = with_calibration(job, calibration["id"])
    shipped = api.post("/v1/estimates", json={**job, "strategy": STRATEGY}).json()
    answer = api.post("/v1/estimates", json={**own, "strategy": STRATEGY})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    EstimateDocument.model_validate(found)
    assert found["estimate"]["step_time_s"] != shipped["estimate"]["step_time_s"]
    assert found["estimate"]["evidence"]["num_runs"] == shipped["estimate"]["evidence"]["num_runs"] + 2
    assert found["priced_with"]["calibration"] == calibration["id"] != shipped["priced_with"]["calibration"]
    assert found["job"]["software"]["calibration"] == calibration["id"]
    (said,) = [sentence for sentence in found["assumptions"] if sentence.startswith("software.calibration = ")]
    assert calibration["id"] in said
    listed = api.post("/v1/estimates", json={**own, "strategies": [STRATEGY, {"tp": 3}]}).json()
    assert said in listed["assumptions"]
    assert listed["estimates"][0]["step_time_s"] == pytest.approx(found["estimate"]["step_time_s"], rel=1e-12)
    assert listed["estimates"][0]["step_time_high_s"] == pytest.approx(found["estimate"]["step_time_high_s"], rel=1e-12)


def test_checks_are_priced_with_it(api: TestClient, job: dict[str, Any], calibration: dict[str, Any]) -> None:
    budget = {"step_time_s": {"max": 1000}}
    own = {**with_calibration(job, calibration["id"]), "strategy": STRATEGY}
    found = api.post("/v1/checks", json={**own, "budget": budget}).json()
    assert found["status"] == "passed", found
    assert found["priced_with"]["calibration"] == calibration["id"]
    assert found["estimate"] == api.post("/v1/estimates", json={**own, "simulate": True}).json()["estimate"]


def test_stored_runs_are_predicted_with_it(api: TestClient, calibration: dict[str, Any]) -> None:
    def errors(query: str) -> list[float]:
        return [run["prediction"]["error_fraction"] for run in api.get(f"/v1/runs?predicted=true{query}").json()["items"]]

    own = partial(constants_for, own=(parse_calibration(json.dumps(calibration["calibration"]), "stored"),))
    rows = validate([parse_run_record(record) for record in usable_records(2)], own).rows
    found = errors(f"&calibration={calibration['id']}")
    assert sorted(found) == pytest.approx(sorted(row.error_fraction or 0 for row in rows), rel=1e-12)
    assert sum(map(abs, found)) < sum(map(abs, errors("")))


def test_runs_are_not_predicted_with_a_calibration_that_is_not_there(api: TestClient, refused: Refused) -> None:
    problem = refused(api.get("/v1/runs?predicted=true&calibration=0123456789ab"), 422, "invalid-input")
    assert "'0123456789ab' is no stored calibration" in problem["detail"]


def test_a_study_keeps_a_copy_of_it(
    api: TestClient, job: dict[str, Any], calibration: dict[str, Any], finish: Callable[[str], None], database: Database
) -> None:
    headers = {"Idempotency-Key": "once"}
    response = api.post("/v1/studies", json=with_calibration(job, calibration["id"]), headers=headers)
    assert response.status_code == 202, response.text
    study = response.json()
    assert study["calibration"]["fingerprint"] == calibration["id"]
    assert any(calibration["id"] in sentence for sentence in study["assumptions"])
    with database.write() as session:  # whatever becomes of the stored one
        session.query(Calibration).delete()
    finish(study["id"])
    found = api.get(f"/v1/studies/{study['id']}")
    assert found.json()["state"] == "completed"
    assert api.get(f"/v1/studies/{study['id']}", headers={"If-None-Match": found.headers["ETag"]}).status_code == 304
    best = api.get(f"/v1/studies/{study['id']}/plans").json()["items"][0]
    shipped = api.post("/v1/estimates", json={**job, "strategy": best["strategy"]}).json()["estimate"]
    assert best["estimate"]["step_time_s"] != shipped["step_time_s"]
    assert best["estimate"]["evidence"]["num_runs"] == shipped["evidence"]["num_runs"] + 2
    replay = api.post("/v1/studies", json=with_calibration(job, calibration["id"]), headers=headers)
    assert (replay.status_code, replay.headers["Idempotency-Replayed"]) == (202, "true")
    assert replay.json()["id"] == study["id"]


@pytest.mark.parametrize("path", ["/v1/estimates", "/v1/checks", "/v1/studies"])
@pytest.mark.parametrize("name", ["0123456789ab", "../own.json", "/etc/passwd", "x" * 4000])
def test_an_unknown_one_is_refused_with_its_place(
    api: TestClient, refused: Refused, job: dict[str, Any], path: str, name: str
) -> None:
    body = with_calibration(job, name)
    if path != "/v1/studies":
        body["strategy"] = STRATEGY
    if path == "/v1/checks":
        body["budget"] = {"step_time_s": {"max": 1000}}
    problem = refused(api.post(path, json=body), 422, "invalid-input")
    assert problem["pointer"] == "#/software/calibration"
    assert "is no stored calibration" in problem["detail"]
    assert "GET /v1/calibrations" in problem["hint"]
    assert api.get("/v1/studies").json()["items"] == []


def test_one_for_other_software_or_hardware_is_refused(
    api: TestClient, refused: Refused, job: dict[str, Any], calibration: dict[str, Any]
) -> None:
    own = {**with_calibration(job, calibration["id"]), "strategy": STRATEGY}
    for body in (
        {**own, "software": {"stack": "mindformers", "calibration": calibration["id"]}},
        {**own, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}},
    ):
        problem = refused(api.post("/v1/estimates", json=body), 422, "invalid-input")
        assert problem["pointer"] == "#/software/calibration"
        assert f"was fitted for {STACK} on {HARDWARE}" in problem["detail"]


def test_one_that_this_version_cannot_read_says_so(
    api: TestClient, refused: Refused, job: dict[str, Any], calibration: dict[str, Any], database: Database
) -> None:
    with database.write() as session:
        row = session.query(Calibration).one()
        row.constants = {**row.constants, "fitted": [{**row.constants["fitted"][0], "name": "gone"}]}
    body = {**with_calibration(job, calibration["id"]), "strategy": STRATEGY}
    problem = refused(api.post("/v1/estimates", json=body), 422, "invalid-input")
    assert "'gone' is no constant of this version" in problem["detail"]
    assert "POST /v1/calibrations" in problem["hint"]

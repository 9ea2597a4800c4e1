"""``/v1/runs``: measured runs come in, are predicted, and are stored once."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.calibrations.constants import constants_for, interval_of
from app.calibrations.runs.schemas import RunsDocument, StoredRun
from app.calibrations.runs.service import MAX_RECORD_BYTES
from calibration.records.training import parse_run_record
from calibration.validation.predictions import validate
from tests.api.run_records import usable_records

Refused = Callable[..., dict[str, Any]]


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def records() -> list[dict[str, Any]]:
    return usable_records(3)


def test_runs_are_predicted_as_the_command_predicts_them(api: TestClient, records: list[dict[str, Any]]) -> None:
    response = api.post("/v1/runs", json={"runs": records})
    assert response.status_code == 200
    answer = response.json()
    RunsDocument.model_validate(answer)
    expected = validate([parse_run_record(record) for record in records], constants_for, interval_of).rows
    assert [item["predicted_step_time_s"] for item in answer["items"]] == [row.predicted_step_time_s for row in expected]
    assert (answer["stored"], answer["refused"]) == (3, 0)
    for item, record in zip(answer["items"], records, strict=True):
        assert item["id"] == record["id"]
        assert item["measured_step_time_s"] == record["measured"]["step_time_s"]
        assert item["low_s"] < item["predicted_step_time_s"] < item["high_s"]
        assert item["error_fraction"] == pytest.approx(item["predicted_step_time_s"] / item["measured_step_time_s"] - 1)


def test_equal_records_are_stored_once_whatever_the_order_of_their_keys(api: TestClient, records: list[dict[str, Any]]) -> None:
    turned = dict(reversed(records[0].items()))
    assert api.post("/v1/runs", json={"runs": [records[0], turned]}).json()["stored"] == 1
    again = api.post("/v1/runs", json={"runs": [turned, records[1]]}).json()
    assert again["stored"] == 1
    assert len(again["items"]) == 2
    assert len(api.get("/v1/runs").json()["items"]) == 2


def test_rows_that_cannot_be_read_are_refused_alone(api: TestClient, records: list[dict[str, Any]]) -> None:
    elsewhere = {**records[1], "cluster": {**records[1]["cluster"], "hardware": "atlas-9000"}}
    answer = api.post("/v1/runs", json={"runs": [records[0], 7, elsewhere, {}]}).json()
    assert (answer["stored"], answer["refused"]) == (1, 3)
    reasons = [item["refused"] for item in answer["items"]]
    assert reasons[0] is None
    assert reasons[1] == "The record is 7; a JSON object is needed."
    assert "atlas-9000" in reasons[2]
    assert "cluster.hardware: missing" in reasons[3]
    assert [run["id"] for run in api.get("/v1/runs").json()["items"]] == [records[0]["id"]]


def test_what_would_hurt_the_server_is_refused(api: TestClient, records: list[dict[str, Any]]) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    first = records[0]
    extreme = [
        {**first, "model": {**first["model"], "num_layers": 9_000, "num_noop_layers": 0}},
        {**first, "note": "x" * MAX_RECORD_BYTES},
        {**first, "cluster": {**first["cluster"], "hardware": "/etc/passwd"}},
        {**first, "cluster": {**first["cluster"], "inter_node_bytes_per_s_per_device": 5e-324, "num_devices": 64}},
        {**first, "note": deep},
        {**first, "note": 10**400},
    ]
    text = json.dumps({"runs": extreme})[:-2] + ', {"id": "infinite", "note": 1e999}]}'
    response = api.post("/v1/runs", content=text, headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text
    items = response.json()["items"]
    assert "at most 2048" in items[0]["refused"]
    assert f"at most {MAX_RECORD_BYTES:,}" in items[1]["refused"]
    assert "/etc/passwd" in items[2]["refused"]
    assert "a number from 1,000,000" in items[3]["refused"]
    assert "deeper than" in items[4]["refused"]
    assert items[5]["refused"] is None
    assert items[6]["refused"]
    for item in items:
        assert (item["refused"] is None) == (item["predicted_step_time_s"] is not None)
    assert api.get("/v1/runs").json()["items"][0]["record"]["note"] == 10**400


def test_stored_runs_are_paged_newest_first(api: TestClient, records: list[dict[str, Any]]) -> None:
    for record in records:
        api.post("/v1/runs", json={"runs": [record]})
    first = api.get("/v1/runs", params={"limit": 2}).json()
    last = api.get("/v1/runs", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    found = [StoredRun.model_validate(run) for run in (*first["items"], *last["items"])]
    assert [run.record for run in found] == records[::-1]
    assert last["next_cursor"] is None


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/runs"),
        ({"runs": []}, "#/runs"),
        ({"runs": "all"}, "#/runs"),
        ({"runs": [{}] * 501}, "#/runs"),
        ({"runs": [{}], "runes": 1}, "#/runes"),
    ],
)
def test_a_body_that_is_no_list_of_runs_is_refused(api: TestClient, refused: Refused, body: dict[str, Any], pointer: str) -> None:
    assert refused(api.post("/v1/runs", json=body), 422, "invalid-input")["pointer"] == pointer


def test_bodies_are_bounded(api: TestClient, refused: Refused) -> None:
    refused(api.post("/v1/runs", json={"runs": ["x" * (4 * 2**20)]}), 413, "too-large")


def test_stored_runs_are_listed_with_what_is_predicted_now(api: TestClient, records: list[dict[str, Any]]) -> None:
    items = api.post("/v1/runs", json={"runs": records}).json()["items"]
    listed = api.get("/v1/runs?predicted=true").json()["items"]
    for item in listed:
        StoredRun.model_validate(item)
    assert [item["prediction"] for item in listed] == items[::-1]
    assert [item["prediction"] for item in api.get("/v1/runs").json()["items"]] == [None] * len(records)

"""What is asked beside the body: HEAD, ids of requests and traces, cursors."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from app.http.openapi import openapi_document
from app.server import application
from app.server.application import create_app
from app.storage.session import Database
from tests.api.sockets import serving
from tests.api.test_connections import answered

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/studies", "/v1/models/llama-2-7b", "/v1/studies/none", "/healthz", "/docs"])
def test_head_has_the_status_and_headers_of_get_and_no_body(api: TestClient, path: str) -> None:
    head, get = api.head(path), api.get(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    vary = {"x-request-id", "content-encoding", "vary", "transfer-encoding"}
    assert {name for name in head.headers if name not in vary} == {name for name in get.headers if name not in vary}


def test_head_of_an_event_stream_ends(database: Database, api: TestClient, job: dict[str, Any]) -> None:
    study_id = api.post("/v1/studies", json=job).json()["id"]
    with serving(database) as address:
        request = f"HEAD /v1/studies/{study_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        answer = answered(address, request.encode())
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")
    assert b"text/event-stream" in answer


def logged(api: TestClient, headers: dict[str, str]) -> tuple[str, dict[str, Any]]:
    with capture_logs() as lines:
        response = api.get("/v1/models", headers=headers)
    (line,) = [line for line in lines if line["event"] == "request"]
    return response.headers["x-request-id"], dict(line)


def test_a_request_keeps_the_id_and_the_trace_that_it_came_with(api: TestClient) -> None:
    request_id, line = logged(api, {"X-Request-ID": "planner-7.1_a", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    assert request_id == line["request_id"] == "planner-7.1_a"
    assert line["trace_id"] == TRACE
    problem = api.get("/v1/studies/none", headers={"X-Request-ID": "planner-8"}).json()
    assert problem["instance"] == "urn:meshplan:request:planner-8"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Request-ID": "two words"},
        {"X-Request-ID": "x" * 65},
        {"X-Request-ID": 'a"b'},
        {"traceparent": f"ff-{TRACE}-00f067aa0ba902b7-01"},
        {"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"},
        {"traceparent": f"00-{TRACE}-{'0' * 16}-01"},
        {"traceparent": "00-short-00f067aa0ba902b7-01"},
    ],
)
def test_ids_that_are_none_are_replaced(api: TestClient, headers: dict[str, str]) -> None:
    request_id, line = logged(api, headers)
    assert re.fullmatch("[0-9a-f]{16}", request_id)
    assert "trace_id" not in line


def test_the_description_is_made_once_and_not_in_the_event_loop(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    app = create_app(database)
    monkeypatch.setattr(application, "openapi_document", lambda app: made.append("by FastAPI") or openapi_document(app))
    with TestClient(app, base_url="http://127.0.0.1") as api:
        first, second = api.get("/openapi.json"), api.get("/openapi.json")
    assert first.json() == second.json() == openapi_document(app)
    assert made == []


def test_cursors_are_described_as_they_are_made(api: TestClient, job: dict[str, Any]) -> None:
    parameters = openapi_document(api.app)["paths"]["/v1/studies"]["get"]["parameters"]
    (cursor,) = [parameter["schema"] for parameter in parameters if parameter["name"] == "cursor"]
    pattern = cursor["pattern"] if "pattern" in cursor else cursor["anyOf"][0]["pattern"]
    for _ in range(2):
        api.post("/v1/studies", json=job)
    assert re.fullmatch(pattern, api.get("/v1/studies?limit=1").json()["next_cursor"])


@pytest.mark.parametrize("record", [[None, None], None, 3, "text"])
def test_a_run_that_is_no_mapping_is_refused_in_its_place_as_the_schema_says(api: TestClient, record: object) -> None:
    body = {"runs": [record]}
    document = openapi_document(api.app)
    schema = document["paths"]["/v1/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(body)
    response = api.post("/v1/runs", json=body)
    assert response.status_code == 200
    assert "JSON object is needed" in response.json()["items"][0]["refused"]

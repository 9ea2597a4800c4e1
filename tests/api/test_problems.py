"""Every error is a problem document that says where and what would do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers import endpoints
from documents.bounds import DOCUMENT_BYTES

Refused = Callable[..., dict[str, Any]]
ON = '{"model": "llama-2-7b", "cluster": {"hardware": '
JSON = {"Content-Type": "application/json"}


def test_an_unknown_path_is_404(api: TestClient, refused: Refused) -> None:
    problem = refused(api.get("/v1/nothing"), 404, "unknown-path")
    assert "/v1/nothing" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/estimates", "POST"),
        ("/v1/studies", "GET, HEAD, POST"),
        ("/v1/studies/0123", "DELETE, GET, HEAD, PATCH"),
        ("/v1/studies/0123:cancel", "POST"),
        ("/v1/models/llama-2-7b", "GET, HEAD"),
        ("/healthz", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_405_and_names_the_right_ones(api: TestClient, refused: Refused, path: str, methods: str) -> None:
    response = api.put(path, json={})
    refused(response, 405, "method-not-allowed")
    assert response.headers["allow"] == methods


@pytest.mark.parametrize(
    ("body", "pointer", "part"),
    [
        ('{"model": "a", "model": "b"}', "#", "'model' occurs twice"),
        ('{"model"', "#", "not valid JSON"),
        ("", "#", "missing"),
        ("[1]", "#", "a list where a mapping"),
        ("null", "#", "where a mapping"),
        ('{"model": NaN}', "#", "not a finite number"),
        ("[" * 100_000, "#", "nested deeper"),
        ('{"model": "llama-2-7b\\u0000"}', "#", "control character"),
        ('{"model": "\\ud800"}', "#", "half a character"),
        ('{"modle": "llama-2-7b"}', "#/modle", "did you mean 'model'?"),
        ('{"model": "llama-2-7"}', "#/cluster/hardware", "cluster.hardware: missing"),
        (ON + '"atlas-800t", "num_devices": 8}}', "#/cluster/hardware", "atlas-800t-a2"),
        (ON + '"atlas-800t-a2", "num_devices": 1e400}}', "#/cluster/num_devices", "inf"),
        (ON + '"atlas-800t-a2", "num_devices": 99999999}}', "#/cluster/num_devices", "1,000,000"),
        (ON + '"atlas-800t-a2", "num_devices": "8"}}', "#/cluster/num_devices", "'8'"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/estimates", "/v1/studies"])
def test_a_bad_body_is_422_and_points_at_the_field(
    api: TestClient, refused: Refused, path: str, body: str, pointer: str, part: str
) -> None:
    problem = refused(api.post(path, content=body, headers=JSON), 422, "invalid-input")
    assert problem["pointer"] == pointer
    assert part in problem["detail"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "config.json", "/dev/zero"])
def test_no_request_makes_the_server_read_a_file(api: TestClient, refused: Refused, path: str, job: dict[str, Any]) -> None:
    refused(api.post("/v1/studies", json={**job, "model": path}), 422, "invalid-input")
    cluster = {"hardware": f"{path}.yaml", "num_devices": 8}
    problem = refused(api.post("/v1/studies", json={**job, "cluster": cluster}), 422, "invalid-input")
    assert "no known hardware profile" in problem["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_that_is_not_sent_as_json_is_415(api: TestClient, refused: Refused, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    problem = refused(api.post("/v1/studies", content="{}", headers=headers), 415, "not-json")
    assert "application/json" in problem["hint"]


def test_a_large_body_is_413_whether_announced_or_streamed(api: TestClient, refused: Refused) -> None:
    def stream() -> Iterator[bytes]:
        for _ in range(DOCUMENT_BYTES // 8192 + 1):
            yield b"x" * 8192

    refused(api.post("/v1/studies", content=b"x" * (DOCUMENT_BYTES + 1), headers=JSON), 413, "too-large")
    refused(api.post("/v1/studies", content=stream(), headers=JSON), 413, "too-large")
    refused(api.post("/v1/studies", content=b"x" * DOCUMENT_BYTES, headers=JSON), 422, "invalid-input")  # just within


def test_a_fault_of_ours_is_a_problem_document_without_the_cause(
    api: TestClient, refused: Refused, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    def fail(**arguments: object) -> None:
        raise RuntimeError("a secret of the server's")

    monkeypatch.setattr(endpoints, "estimates", fail)
    response = api.post("/v1/estimates", json={**job, "strategy": {"tp": 8}, "simulate": True})
    problem = refused(response, 500, "internal")
    assert "secret" not in response.text
    assert problem["instance"].endswith(response.headers["x-request-id"])


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/healthz", "/docs"])
def test_every_answer_carries_the_security_headers(api: TestClient, path: str) -> None:
    headers = api.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["content-security-policy"].startswith("default-src 'self'")


@pytest.mark.parametrize(
    "headers",
    [{"Host": "planner.example:8765"}, {"Host": "127.0.0.1.example"}, {"Origin": "http://page.example"}, {"Origin": "null"}],
)
def test_without_keys_a_web_page_cannot_reach_the_server(api: TestClient, refused: Refused, headers: dict[str, str]) -> None:
    refused(api.get("/v1/studies", headers=headers), 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765"])
def test_local_names_are_answered(api: TestClient, host: str) -> None:
    assert api.get("/v1/models", headers={"Host": host}).status_code == 200

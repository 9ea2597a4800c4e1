"""Bodies that would take the memory of the machine: refused before they are read to their end, large ones one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers import endpoints
from app.answers.schemas import MAX_STRATEGIES
from app.calibrations.runs.schemas import MAX_RUNS
from app.http import large_bodies

Refused = Callable[..., dict[str, Any]]
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("path", "name", "limit"), [("/v1/estimates", "strategies", MAX_STRATEGIES), ("/v1/runs", "runs", MAX_RUNS)]
)
def test_a_list_is_refused_at_its_first_entry_too_many(
    api: TestClient, refused: Refused, path: str, name: str, limit: int
) -> None:
    body = f'{{"{name}": [' + "{}," * limit + "{} and what follows is not even JSON"
    problem = refused(api.post(path, content=body, headers=JSON), 422, "invalid-input")
    assert f"more than {limit:,}" in problem["detail"]
    assert problem["pointer"] == f"#/{name}"


@pytest.mark.parametrize("value", ["{},", '{"a":1},', "[],", "1.5,", '"ab",'])
def test_a_body_of_millions_of_values_is_refused_unread(api: TestClient, refused: Refused, value: str) -> None:
    body = '{"model": [' + value * (8 * 2**20 // len(value)) + "and what follows is not even JSON"
    problem = refused(api.post("/v1/estimates", content=body, headers=JSON), 413, "too-large")
    assert "1,000,000 values" in problem["detail"]


def test_the_most_that_a_request_may_ask_is_within_the_bound(api: TestClient, refused: Refused, job: dict[str, Any]) -> None:
    recompute = {"granularity": "full", "method": "block", "num_layers": 1}
    strategy = {"tp": 8, "pp": 1, "zero_stage": 1, "micro_batch_size": 1, "recompute": recompute, "vpp": 1, "cp": 1, "ep": 1}
    seen = api.post("/v1/estimates", json={**job, "search": {}, "strategies": [strategy] * MAX_STRATEGIES, "simulat": True})
    assert "simulat" in refused(seen, 422, "invalid-input")["detail"]  # it was read


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd, gzip"])
def test_a_compressed_body_is_415(api: TestClient, refused: Refused, encoding: str) -> None:
    response = api.post("/v1/estimates", content=b"\x1f\x8b\x08", headers={**JSON, "Content-Encoding": encoding})
    problem = refused(response, 415, "not-json")
    assert "Content-Encoding" in problem["hint"]


def test_large_bodies_take_turns_and_light_requests_do_not_wait(
    api: TestClient, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, may_end = threading.Semaphore(0), threading.Event()
    at_once: list[int] = []
    num_running = 0

    def slow(document: dict[str, Any], parts: object, database: object) -> Any:
        nonlocal num_running
        num_running += 1
        at_once.append(num_running)
        running.release()
        may_end.wait(20)
        num_running -= 1
        return endpoints_estimates({**document, "extra": 1}, parts, database)

    endpoints_estimates = endpoints.estimates
    monkeypatch.setattr(endpoints, "estimates", slow)
    num_callers = large_bodies.READ_AT_ONCE + large_bodies.WAITING
    large = '{"strategies": [{}], "model": "' + "x" * large_bodies.LARGE_BYTES + '"}'
    answers: list[Any] = []

    def post(content: Any) -> None:
        answers.append(api.post("/v1/estimates", content=content, headers=JSON))

    def stream() -> Iterator[bytes]:
        yield large.encode()

    callers = [threading.Thread(target=post, args=(large if number % 2 else stream(),)) for number in range(num_callers)]
    for caller in callers:
        caller.start()
    assert running.acquire(timeout=10)
    assert api.get("/healthz").status_code == 200
    limiter = api.app.state.server.large_bodies
    while limiter.num_waiting < large_bodies.WAITING:
        threading.Event().wait(0.01)
    response = api.post("/v1/estimates", content=large, headers=JSON)
    refused(response, 503, "unavailable")
    assert response.headers["retry-after"] == "10"
    may_end.set()
    for caller in callers:
        caller.join()
    assert at_once == [1] * num_callers
    assert {answer.status_code for answer in answers} == {422}

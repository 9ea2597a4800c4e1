"""``POST /v1/sweeps``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.sweeps import requests
from app.sweeps.points import Source
from app.sweeps.service import sweep_document
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]


def test_a_sweep_is_answered_as_the_command_answers(api: TestClient, job: dict[str, Any]) -> None:
    job = {**job, "sweep": {"devices": [8, 16]}}
    response = api.post("/v1/sweeps", json=job)
    assert response.status_code == 200
    answered, expected = response.json(), plain(sweep_document(Source(job)))
    assert {**answered, "elapsed_s": 0} == {**expected, "elapsed_s": 0}


@pytest.mark.parametrize(
    ("sweep", "pointer"),
    [
        ({"devices": 0}, "#/sweep/devices"),
        ({"device": [8]}, "#/sweep/device"),
        ({"hardware": []}, "#/sweep/hardware"),
        ({"devices": list(range(1, 66))}, "#/sweep"),
        ([8], "#/sweep"),
    ],
)
def test_bad_questions_are_refused(api: TestClient, job: dict[str, Any], refused: Refused, sweep: Any, pointer: str) -> None:
    response = api.post("/v1/sweeps", json={**job, "sweep": sweep})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer


def test_a_sweep_that_takes_too_long_is_answered_as_far_as_it_came(
    api: TestClient, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_SERVED_S", 1e-6)
    answered = api.post("/v1/sweeps", json={**job, "sweep": {"devices": [8, 16]}}).json()
    assert answered["stopped_by"] == "time_limit"
    assert (answered["num_done"], answered["num_points"]) == (1, 2)


def test_no_file_of_the_server_is_read(api: TestClient, job: dict[str, Any], refused: Refused) -> None:
    response = api.post("/v1/sweeps", json={**job, "sweep": {"hardware": "/etc/passwd"}})
    assert "is unknown" in refused(response, 422, "invalid-input")["detail"]

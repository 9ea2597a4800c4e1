"""``POST /v1/rl/estimates`` and ``/v1/rl/searches``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.rl.job import parse_rl_job
from app.rl.service import rl_document
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]
JOB: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": 32},
    "post_training": {"prompts": 32, "samples": 4, "lengths": {"mean": 300, "cap": 600}, "placement": "fully-colocated"},
    "strategy": {"tp": 4},
}


def test_a_step_is_answered_as_the_command_answers(api: TestClient) -> None:
    response = api.post("/v1/rl/estimates", json=JOB)
    assert response.status_code == 200
    answer = response.json()
    assert answer == plain(rl_document(parse_rl_job(JOB)))
    # The answer's own job gives the answer again.
    assert api.post("/v1/rl/estimates", json=answer["job"]).json()["step_time_s"] == answer["step_time_s"]


def test_a_search_is_answered(api: TestClient) -> None:
    response = api.post("/v1/rl/searches", json={**JOB, "rollout": {"tp": 1}})
    assert response.status_code == 200
    assert response.json()["plans"][0]["placement"] == "fully-colocated"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"post_training": None}, "#/post_training"),
        ({"post_training": {**JOB["post_training"], "prompts": 0}}, "#/post_training/prompts"),
        ({"post_training": {**JOB["post_training"], "lengths": {"cap": 5}}}, "#/post_training/lengths/mean"),
        (
            {"post_training": {**JOB["post_training"], "lengths": {"cap": 5, "histogram": "x.csv"}}},
            "#/post_training/lengths/histogram",
        ),
        ({"rollout": {"tp": 3}}, "#/rollout/tp"),
        ({"rollout": {"precision": "fp8"}}, "#/rollout/precision"),
        ({"model": "gpt-9"}, "#/model"),
        ({"cluster": {"hardware": "/etc/passwd", "num_devices": 8}}, "#/cluster/hardware"),
        ({"training": {}}, "#/training"),
    ],
)
def test_bad_questions_are_refused(api: TestClient, refused: Refused, change: dict[str, Any], pointer: str) -> None:
    response = api.post("/v1/rl/estimates", json={**JOB, **change})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer


def test_a_job_that_nothing_holds_is_told_why(api: TestClient, refused: Refused) -> None:
    said = refused(api.post("/v1/rl/searches", json={**JOB, "rollout": {"tp": 3}}), 422, "infeasible")
    assert "rollout.tp: 3 does not divide 32 heads" in said["detail"]

"""``POST /v1/serving/estimates``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.serving.job import parse_serving_job
from app.serving.service import serving_document
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]
JOB = {
    "model": "qwen3-32b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "serving": {"prompt_tokens": 1000, "response_tokens": 500, "decode": {"tp": 8}, "prefill": {"tp": 8}},
}


def test_a_service_is_answered_as_the_command_answers(api: TestClient) -> None:
    response = api.post("/v1/serving/estimates", json=JOB)
    assert response.status_code == 200
    answer = response.json()
    assert answer == plain(serving_document(parse_serving_job(JOB)))
    for pool in (answer["prefill"], answer["decode"]):
        assert sum(pool["parts_s"].values()) == pytest.approx(pool["time_s"], rel=1e-9)
    # The answer's own job gives the answer again.
    assert api.post("/v1/serving/estimates", json=answer["job"]).json()["service"] == answer["service"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"serving": {"prompt_tokens": 0, "response_tokens": 1}}, "#/serving/prompt_tokens"),
        ({"serving": None}, "#/serving/prompt_tokens"),
        ({"serving": {"prompt_tokens": 1, "response_tokens": 1}}, "#/serving/decode"),
        ({"serving": {**JOB["serving"], "decode": {"tp": 3}}}, "#/serving/decode/tp"),
        ({"serving": {**JOB["serving"], "decode": {"tp": 2, "ep": 2}}}, "#/serving/decode/ep"),
        ({"serving": {**JOB["serving"], "decode": {"instances": 9, "tp": 8}}}, "#/cluster/num_devices"),
        ({"serving": {**JOB["serving"], "precision": "fp8"}}, "#/serving/precision"),
        ({"serving": {**JOB["serving"], "overlap": "some"}}, "#/serving/overlap"),
        ({"training": {}}, "#/training"),
        ({"model": "qwen3-33b"}, "#/model"),
        ({"cluster": {"hardware": "/etc/passwd", "num_devices": 8}}, "#/cluster/hardware"),
    ],
)
def test_bad_questions_are_refused(api: TestClient, refused: Refused, change: dict[str, Any], pointer: str) -> None:
    response = api.post("/v1/serving/estimates", json={**JOB, **change})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer

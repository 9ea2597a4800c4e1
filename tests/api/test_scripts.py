"""``POST /v1/scripts``: what ``meshplan tune`` answers."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.launch_scripts.schemas import TuneDocument
from tests.unit.app.launch_scripts.test_tuning import HARDWARE, SCRIPT

BODY: dict[str, Any] = {"script": SCRIPT, "hardware": HARDWARE}


def test_a_script_is_tuned(api: TestClient) -> None:
    response = api.post("/v1/scripts", json={**BODY, "script": SCRIPT.replace("TP=8", "TP=8  # 张量并行")})
    assert response.status_code == 200
    document = TuneDocument.model_validate(response.json())
    assert document.strategy.tp == 8
    assert document.best is not None
    assert document.diff.startswith("--- script\n")
    assert "张量并行" in document.script


@pytest.mark.parametrize(
    ("change", "pointer", "part"),
    [
        ({"hardware": "h100"}, "#/hardware", "no known hardware profile"),
        ({"devices": 0}, "#/devices", "from 1"),
        ({"script": 'A="'}, None, "line 1: the quote"),
        ({"script": ""}, "#/script", "characters"),
        ({"target": "mindformers"}, "#/target", "does not start from such a file"),
        ({"set": {"TP": 4}}, "#/set", "a mapping"),
        ({"files": {"a": 1}}, "#/files", "a mapping"),
        ({"scripts": "x"}, "#/scripts", "did you mean"),
    ],
)
def test_a_body_that_says_no_script_is_a_problem(api: TestClient, change: dict[str, Any], pointer: str | None, part: str) -> None:
    response = api.post("/v1/scripts", json={**BODY, **change})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert part in response.json()["detail"]
    if pointer is not None:
        assert str(response.json()["pointer"]).startswith(pointer)


def test_a_body_of_any_size_is_refused_above_the_bound(api: TestClient) -> None:
    response = api.post("/v1/scripts", json={**BODY, "script": "x" * (9 * 2**20)})
    assert response.status_code == 413

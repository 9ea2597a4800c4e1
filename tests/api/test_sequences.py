"""``POST /v1/sequences/plans``: what ``meshplan sequences plan`` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.cli.main import main
from tests.unit.app.cli.test_sequences_command import JOB, LENGTHS

Refused = Callable[..., dict[str, Any]]


def test_a_plan_is_answered_as_the_command_answers(api: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.json").write_text(json.dumps(JOB), encoding="utf-8")
    (tmp_path / "lengths.json").write_text(json.dumps(LENGTHS), encoding="utf-8")
    assert main(["sequences", "plan", str(tmp_path / "lengths.json"), "--job", str(tmp_path / "job.json"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    response = api.post("/v1/sequences/plans", json={**JOB, "lengths": LENGTHS})
    assert response.status_code == 200, response.text
    assert response.json() == printed
    histogram = {str(length): LENGTHS.count(length) for length in set(LENGTHS)}
    drawn = api.post("/v1/sequences/plans", json={**JOB, "histogram": histogram, "terms": {"steps": 2, "seed": 1}}).json()
    assert drawn["is_drawn"]
    assert drawn["num_steps"] == 2


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({}, "#/lengths"),
        ({"lengths": [4, -1]}, "#/lengths/1"),
        ({"histogram": {"4": -1}}, "#/histogram/4"),
        ({"lengths": [4], "histogram": {"4": 1}}, "#"),
        ({"lengths": [1], "terms": {"steps": 0}}, "#/terms/steps"),
        ({"lengths": [1]}, "#/lengths"),
        ({"lengths": [4], "strategy": None}, "#/strategy"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_its_place(
    api: TestClient, refused: Refused, change: dict[str, Any], pointer: str
) -> None:
    problem = refused(api.post("/v1/sequences/plans", json={**JOB, **change}), 422, "invalid-input")
    assert problem["pointer"] == pointer

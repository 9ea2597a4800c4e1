"""``POST /v1/checks``: what ``meshplan check`` answers."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.checks.budget import parse_budget
from app.checks.schemas import CheckDocument
from app.jobs.job import parse_job
from tests.unit.app.checks.jobs import checked

Refused = Callable[..., dict[str, Any]]
BUDGET = {"step_time_s": {"max": 60}, "headroom_bytes": {"min": 1e9}}


@pytest.fixture
def checked_job(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "strategy": {"tp": 8}}


def test_a_check_is_answered_as_the_command_answers(api: TestClient, checked_job: dict[str, Any]) -> None:
    response = api.post("/v1/checks", json={**checked_job, "budget": BUDGET})
    assert response.status_code == 200
    assert response.json() == checked(parse_job(checked_job), parse_budget(BUDGET))
    CheckDocument.model_validate(response.json())


def test_a_broken_budget_and_a_strategy_that_cannot_run_are_answers(api: TestClient, checked_job: dict[str, Any]) -> None:
    broken = api.post("/v1/checks", json={**checked_job, "budget": {"step_time_s": {"max": 1}}})
    assert (broken.status_code, broken.json()["status"], broken.json()["exit_code"]) == (200, "broken", 3)
    cannot = api.post("/v1/checks", json={**checked_job, "strategy": {"tp": 3}, "budget": BUDGET})
    assert (cannot.status_code, cannot.json()["status"], cannot.json()["exit_code"]) == (200, "infeasible", 4)


def test_answers_are_baselines(api: TestClient, checked_job: dict[str, Any]) -> None:
    for path, extra in (("/v1/estimates", {}), ("/v1/checks", {"budget": BUDGET})):
        baseline = api.post(path, json={**checked_job, **extra}).json()
        slower = {**checked_job, "strategy": {"tp": 8, "recompute": "full"}}
        document = api.post("/v1/checks", json={**slower, "baseline": baseline, "pin": True}).json()
        assert document["status"] == "broken"
        assert document["baseline"]["movements"][0]["tool_fraction"] == 0.0


def test_the_distance_to_the_best_runs_a_search(api: TestClient, checked_job: dict[str, Any]) -> None:
    body = {**checked_job, "budget": {"slowdown_against_best_fraction": {"max": 9}}}
    document = api.post("/v1/checks", json=body).json()
    assert document["status"] == "passed"
    assert document["search"]["proof"]["proved_best"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"budget": {"step_tim_s": {"max": 1}}}, "#/budget/step_tim_s"),
        ({"budget": {"step_time_s": {"max": "1"}}}, "#/budget/step_time_s/max"),
        ({"budget": [1]}, "#/budget"),
        ({}, "#/budget"),
        ({"baseline": 3}, "#/baseline"),
        ({"baseline": {}}, "#/baseline"),
        ({"budget": BUDGET, "pin": True}, "#/pin"),
        ({"budget": BUDGET, "pin": "yes"}, "#/pin"),
        ({"budget": BUDGET, "strategy": {"tp": 0}}, "#/strategy/tp"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_its_place(
    api: TestClient, checked_job: dict[str, Any], refused: Refused, change: dict[str, Any], pointer: str
) -> None:
    problem = refused(api.post("/v1/checks", json={**checked_job, **change}), 422, "invalid-input")
    assert problem["pointer"] == pointer


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400])
def test_numbers_beyond_any_answer_are_refused(api: TestClient, number: str, refused: Refused) -> None:
    text = '{"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}, "strategy": {"tp": 8}, '
    for part in ('"baseline": {"calibration": {"num_runs": %s}}}', '"budget": {"step_time_s": {"max": %s}}}'):
        response = api.post("/v1/checks", content=text + part % number, headers={"Content-Type": "application/json"})
        refused(response, 422, "invalid-input")

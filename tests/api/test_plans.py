"""One plan of a study over REST."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.answers.files import plan_files
from app.answers.schemas import LaunchDocument
from app.plans.schemas import PlanAnalysis, PlanLaunch
from app.storage.session import Database
from app.storage.tables import Study

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]


@pytest.fixture
def study_id(api: TestClient, job: dict[str, Any], finish: Finish) -> str:
    found = str(api.post("/v1/studies", json=job).json()["id"])
    finish(found)
    return found


def plans_of(api: TestClient, study_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/v1/studies/{study_id}/plans").json()["items"]
    return found


def test_an_analysis_prices_each_plan_as_the_search_did(api: TestClient, study_id: str) -> None:
    plans = plans_of(api, study_id)
    assert len(plans) > 1
    for plan in plans:
        answer = api.get(f"/v1/studies/{study_id}/plans/{plan['plan_id']}/analysis")
        assert answer.status_code == 200, answer.text
        analysis = PlanAnalysis.model_validate(answer.json())
        estimate = plan["estimate"]
        assert analysis.step_time_s == pytest.approx(estimate["step_time_s"])
        assert analysis.memory_limit_bytes == estimate["memory_limit_bytes"]
        worst = max(analysis.stages, key=lambda stage: stage.peak_memory_bytes)
        assert worst.memory_bytes == pytest.approx(estimate["memory_breakdown_bytes"])
        assert {group.group for group in analysis.traffic} <= {"tp", "dp"}
        assert analysis.sensitivity
    best = api.get(f"/v1/studies/{study_id}/plans/{plans[0]['plan_id']}/analysis").json()
    expected = plans[0]["explanation"]["neighbours"]
    assert [change["change"] for change in best["changes"]] == [change["change"] for change in expected]
    for change, stored in zip(best["changes"], expected, strict=True):
        assert change["step_time_s"] == pytest.approx(stored["step_time_s"])


def test_a_plan_is_read_alone(api: TestClient, study_id: str) -> None:
    for plan in plans_of(api, study_id):
        assert api.get(f"/v1/studies/{study_id}/plans/{plan['plan_id']}").json() == plan


def test_launch_files_are_those_that_a_search_saves(api: TestClient, study_id: str) -> None:
    plan = plans_of(api, study_id)[0]
    launch = PlanLaunch.model_validate(api.get(f"/v1/studies/{study_id}/plans/{plan['plan_id']}/launch").json())
    assert launch.launch == {name: LaunchDocument.model_validate(entry) for name, entry in plan["launch"].items()}
    job = api.get(f"/v1/studies/{study_id}").json()["job"]
    assert {file.name: file.text for file in launch.files} == {name: text for _, name, text in plan_files(plan, job, 8)}
    assert [file.framework for file in launch.files] == [None, "mindspeed-llm", "mindformers"]


def test_comments_of_launch_files_are_in_the_language_that_is_asked_for(api: TestClient, study_id: str) -> None:
    page = f"/v1/studies/{study_id}/plans/{plans_of(api, study_id)[0]['plan_id']}/launch"
    english, chinese = (
        {file["framework"]: file["text"] for file in api.get(page, headers={"Accept-Language": language}).json()["files"]}
        for language in ("en", "zh-CN")
    )
    assert english[None] == chinese[None]  # the job file
    assert "# Parallelism" in english["mindspeed-llm"]
    assert "# 并行" in chinese["mindspeed-llm"]
    assert "# Parallelism" not in chinese["mindspeed-llm"]


@pytest.mark.parametrize("page", ["analysis", "launch"])
def test_unknown_plans_are_not_found(api: TestClient, study_id: str, refused: Refused, page: str) -> None:
    for plan_id in ("0" * 12, "no%20plan", "x" * 80):
        refused(api.get(f"/v1/studies/{study_id}/plans/{plan_id}/{page}"), 404, "not-found")
    refused(api.get(f"/v1/studies/{'0' * 16}/plans/{'0' * 12}/{page}"), 404, "not-found")


def test_what_another_version_stored_and_this_one_cannot_read_is_a_conflict(
    api: TestClient, study_id: str, database: Database, refused: Refused
) -> None:
    plan_id = plans_of(api, study_id)[0]["plan_id"]
    job = api.get(f"/v1/studies/{study_id}").json()["job"]
    with database.write() as session:
        session.execute(update(Study).where(Study.id == study_id).values(job={**job, "from_the_future": 1}, version="9.0"))
    problem = refused(api.get(f"/v1/studies/{study_id}/plans/{plan_id}/analysis"), 409, "conflict")
    assert "version 9.0" in problem["detail"]
    assert "from_the_future" in problem["detail"]

"""A study's list, its ranking, its report and an explanation name one plan."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

Finish = Callable[[str], None]


@pytest.mark.parametrize("target", [None, "any"])
def test_lists_reports_and_explanations_take_the_recommended_plan(
    api: TestClient, job: dict[str, Any], finish: Finish, target: str | None
) -> None:
    asked = job if target is None else {**job, "software": {"target": target}}
    if target is None:
        asked.pop("software", None)
    study = str(api.post("/v1/studies", json=asked).json()["id"])
    finish(study)
    recommended = api.get(f"/v1/studies/{study}").json()["result"]["recommended"]
    plans = api.get(f"/v1/studies/{study}/plans").json()["items"]
    (plan,) = [each for each in plans if each["plan_id"] == recommended["plan_id"]]
    (listed,) = [each for each in api.get("/v1/studies").json()["items"] if each["id"] == study]
    assert listed["best"]["plan_id"] == plan["plan_id"]
    assert api.post("/v1/explanations", json=asked).json()["strategy"] == plan["strategy"]
    report = api.get(f"/v1/studies/{study}/report", params={"format": "markdown"}).text
    assert f"Plan {plan['rank']}" in report or f"plan {plan['rank']}" in report

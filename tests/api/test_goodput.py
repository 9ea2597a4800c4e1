"""``POST /v1/goodput``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.goodput.service import goodput_document
from app.jobs.job import parse_job
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]
SITE = {"mtbf_s": 30_000.0, "histories": 100, "recovery": "pod"}


def test_a_delivery_is_answered_as_the_command_answers(api: TestClient, job: dict[str, Any]) -> None:
    job = {**job, "strategy": {"tp": 8}, "delivery": SITE}
    response = api.post("/v1/goodput", json=job)
    assert response.status_code == 200
    assert response.json() == plain(goodput_document(parse_job(job)))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"strategy": None}, "#/strategy"),
        ({"delivery": {"mtbf_s": 0}}, "#/delivery/mtbf_s"),
        ({"delivery": {"mtb_s": 10}}, "#/delivery/mtb_s"),
        ({"delivery": [1]}, "#/delivery"),
        ({"budget": {}}, "#/budget"),
    ],
)
def test_bad_questions_are_refused(
    api: TestClient, job: dict[str, Any], refused: Refused, change: dict[str, Any], pointer: str
) -> None:
    response = api.post("/v1/goodput", json={**job, "strategy": {"tp": 8}, "delivery": SITE, **change})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer


def test_estimates_and_studies_say_what_their_plans_deliver(api: TestClient, job: dict[str, Any]) -> None:
    priced = api.post("/v1/estimates", json={**job, "strategy": {"tp": 8}, "delivery": SITE}).json()
    whole = api.post("/v1/goodput", json={**job, "strategy": {"tp": 8}, "delivery": SITE}).json()
    for name in ("mtbf_s", "effective_time_fraction", "delivered_tokens_per_day"):
        assert priced["delivery"][name] == pytest.approx(whole[name], rel=1e-12)
    assert priced["delivery"]["delivered_days"] == pytest.approx(whole["days"]["mean"])
    assert priced["job"]["delivery"] == SITE
    budget = {
        "delivered_tokens_per_day": {"min": 1e6},
        "effective_time_fraction": {"min": 0.999999},
        "delivered_days": {"max": 1e9},
    }
    checked = api.post("/v1/checks", json={**job, "strategy": {"tp": 8}, "delivery": SITE, "budget": budget}).json()
    assert {item["id"]: item["status"] for item in checked["checks"] if "budget" in item["id"]} == {
        "budget.delivered_tokens_per_day.min": "passed",
        "budget.effective_time_fraction.min": "failed",
        "budget.delivered_days.max": "passed",
    }


def test_a_budget_of_a_delivery_needs_a_site(api: TestClient, job: dict[str, Any], refused: Refused) -> None:
    body = {**job, "strategy": {"tp": 8}, "budget": {"delivered_tokens_per_day": {"min": 1e6}}}
    assert "delivery" in refused(api.post("/v1/checks", json=body), 422, "invalid-input")["detail"]

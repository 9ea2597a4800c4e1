"""Studies that rank by more than the lattice's own order."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.answers.search import search_document
from app.jobs.job import parse_job
from app.text.json_documents import plain

Refused = Callable[..., dict[str, Any]]


def test_a_study_ranks_by_its_objectives_as_a_search_does(
    api: TestClient, job: dict[str, Any], finish: Callable[[str], None]
) -> None:
    site = {"price_per_device_hour_usd": 2.0}
    job = {**job, "delivery": site, "search": {**job["search"], "objective": ["energy", "cost", "memory_headroom"]}}
    study = api.post("/v1/studies", json=job).json()
    assert study["objective"] == "energy, cost, memory_headroom"
    finish(study["id"])
    document = api.get(f"/v1/studies/{study['id']}").json()
    searched = plain(search_document(parse_job(document["job"])))
    assert document["state"] == "completed"
    assert document["result"]["proof"] == searched["proof"]
    assert document["result"]["pareto"] == searched["pareto"]
    assert [sentence for sentence in document["assumptions"] if sentence.startswith("cost: 2 USD")]
    plans = api.get(f"/v1/studies/{study['id']}/plans").json()["items"]
    assert [plan["values"] for plan in plans] == [plan["values"] for plan in searched["plans"]]


def test_a_study_that_nothing_is_within_says_so(api: TestClient, job: dict[str, Any], finish: Callable[[str], None]) -> None:
    study = api.post("/v1/studies", json={**job, "search": {**job["search"], "deadline_days": 0.5}}).json()
    finish(study["id"])
    result = api.get(f"/v1/studies/{study['id']}").json()["result"]
    assert "No plan is done within 0.5 days" in result["nearest"]


@pytest.mark.parametrize(
    ("search", "pointer"),
    [
        ({"objective": "speed"}, "#/search/objective"),
        ({"objective": []}, "#/search/objective"),
        ({"objective": "energy", "sampler": "tpe"}, "#/search"),
        ({"deadline_days": 0}, "#/search/deadline_days"),
        ({"budget_usd": -1}, "#/search/budget_usd"),
        ({"max_trials": 5}, "#/search/max_trials"),
        ({"refine": 8, "objective": "memory_headroom"}, "#/search/refine"),
        ({"refine_front": True}, "#/search/refine_front"),
        ({"by_tensor": True, "sampler": "tpe"}, "#/search/by_tensor"),
    ],
)
def test_bad_objectives_are_refused(
    api: TestClient, job: dict[str, Any], refused: Refused, search: dict[str, Any], pointer: str
) -> None:
    response = api.post("/v1/studies", json={**job, "search": search})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer

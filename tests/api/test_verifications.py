"""The verification of a study's plan over REST: the counts are the caller's, the comparison is the server's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from app.storage.session import Database
from app.storage.tables import Plan, PlanVerification, Study

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]
FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "verification"
PLAN = yaml.safe_load((FOLDER / "llama-3.1-70b.job.yaml").read_text())


@pytest.fixture
def counts() -> dict[str, Any]:
    """What Megatron-LM counted for the plan."""
    found: dict[str, Any] = json.loads((FOLDER / "llama-3.1-70b.counts.json").read_text())
    return found


@pytest.fixture
def address(api: TestClient, job: dict[str, Any], finish: Finish, database: Database) -> str:
    """A study whose first plan is the one of the counts."""
    study_id = str(api.post("/v1/studies", json=job).json()["id"])
    finish(study_id)
    asked = {name: value for name, value in PLAN.items() if name != "strategy"}
    other = str(api.post("/v1/studies", json={**asked, "search": {"top": 1, "time_limit_s": 0.01}}).json()["id"])
    plan = api.get(f"/v1/studies/{study_id}/plans").json()["items"][0]
    with database.write() as session:
        source = session.scalars(select(Study).where(Study.id == other)).one()
        profile, calibration, space, document = source.hardware_profile, source.calibration, source.space, source.job
        session.execute(
            update(Study)
            .where(Study.id == study_id)
            .values(job=document, hardware_profile=profile, calibration=calibration, space=space)
        )
        session.execute(
            update(Plan)
            .where(Plan.study_id == study_id, Plan.plan_id == plan["plan_id"])
            .values(document={**plan, "strategy": PLAN["strategy"]})
        )
    return f"/v1/studies/{study_id}/plans/{plan['plan_id']}/verification"


def num_kept(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(PlanVerification)) or 0


def test_counts_are_held_against_the_servers_price_and_kept(
    api: TestClient, address: str, counts: dict[str, Any], database: Database
) -> None:
    before = api.get(address).json()
    assert (before["created_at_s"], before["verification"]) == (None, None)
    kept = api.put(address, json=counts)
    assert kept.status_code == 200, kept.text
    assert api.get(address).json() == kept.json()
    found = kept.json()["verification"]
    assert (found["passed"], found["framework"], len(found["ranks"])) == (True, "megatron-lm@0.19", 4)
    counts["ranks"][1]["states"]["master"] *= 2
    changed = api.put(address, json=counts).json()["verification"]
    assert changed["passed"] is False
    assert changed["ranks"][1]["rows"][0] == {
        **changed["ranks"][1]["rows"][0], "quantity": "master", "ratio": pytest.approx(0.5), "within": False
    }  # fmt: skip
    assert num_kept(database) == 1  # in place of the first
    assert api.get(address).json()["verification"] == changed


def test_a_verification_is_deleted_with_its_study(
    api: TestClient, address: str, counts: dict[str, Any], database: Database
) -> None:
    api.put(address, json=counts)
    assert api.delete(address.partition("/plans")[0]).status_code == 204
    assert num_kept(database) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 2},
        {"ranks": []},
        {"ranks": [{"rank": 64}]},
        {"ranks": [{"rank": 0, "num_microbatches": 3}]},
        {"ranks": [{"rank": 0, "states": {"weights": 10**400}}]},
        {"ranks": [{"rank": 0, "layers": {"dense": {"many": 1}}}]},
        {"ranks": [{"rank": 0, "calls": [{"phase": "\u0000"}]}]},
        {"ranks": [{"rank": 0, "failed": {"stage": "step", "kind": "UnknownKernelError", "message": "te.Magic"}}]},
    ],
)
def test_what_are_no_counts_of_the_plan_is_refused(
    api: TestClient, address: str, counts: dict[str, Any], refused: Refused, database: Database, change: dict[str, Any]
) -> None:
    refused(api.put(address, json={**counts, **change}), 422, "invalid-input")
    assert num_kept(database) == 0


def test_a_plan_that_is_not_there_has_no_verification(
    api: TestClient, address: str, counts: dict[str, Any], refused: Refused
) -> None:
    missing = address.rpartition("/plans/")[0] + "/plans/nothing/verification"
    refused(api.put(missing, json=counts), 404, "not-found")
    refused(api.get(missing), 404, "not-found")

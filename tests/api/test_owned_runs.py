"""Measured runs and calibrations belong to the owner of the key that stored them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.cli.main import main
from app.http import keys
from app.http.keys import KeyLimits
from app.server.application import create_app
from app.storage.session import Database
from app.storage.tables import Calibration, MeasuredRun
from app.studies import pruning
from app.studies.pruning import SECONDS_PER_DAY, Retention
from tests.api.run_records import HARDWARE, STACK, usable_records
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]
BODY = {"hardware": HARDWARE, "stack": STACK}
RECORDS = usable_records(4)
Client = Callable[..., TestClient]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    app = create_app(database, keys_required=True, limits=KeyLimits(max_stored=6))
    with TestClient(app, base_url="https://planner.example", raise_server_exceptions=False):

        def make(name: str, *scopes: keys.Scope) -> TestClient:
            with database.write() as session:
                secret = keys.create_key(session, name, scopes or keys.USUAL_SCOPES, None)[1]
            headers = {"Authorization": f"Bearer {secret}"}
            return TestClient(app, base_url="https://planner.example", headers=headers, raise_server_exceptions=False)

        yield make


def ids(client: TestClient) -> list[str]:
    return [item["id"] for item in client.get("/v1/runs").json()["items"]]


def slowed(record: dict[str, Any], factor: float) -> dict[str, Any]:
    return {**record, "measured": {**record["measured"], "step_time_s": factor * record["measured"]["step_time_s"]}}


def test_runs_of_another_key_are_not_seen_and_move_no_constants(client: Client, refused: Refused) -> None:
    ada, eve, root = client("ada"), client("eve"), client("root", "admin")
    assert ada.post("/v1/runs", json={"runs": RECORDS[:2]}).json()["stored"] == 2
    before = ada.post("/v1/calibrations", json=BODY).json()
    false = [slowed(record, 3.0) for record in RECORDS]
    assert eve.post("/v1/runs?visibility=public", json={"runs": false}).json()["stored"] == 4
    assert ada.post("/v1/calibrations", json=BODY).json() == before
    assert before["owner"] == "ada"
    hidden = client("bob").post("/v1/runs", json={"runs": false})
    assert hidden.json()["stored"] == 4  # equal records of two owners are two
    assert len(ids(ada)) == 6  # its own, and what is public
    assert len(ids(root)) == 10
    asked = ada.post("/v1/calibrations", json={**BODY, "shared": True}).json()
    assert (asked["num_runs"], before["num_runs"]) == (6, 2)
    refused(client("new").post("/v1/calibrations", json=BODY), 422, "invalid-input")


def test_runs_of_nobody_are_fitted_only_if_asked_for(client: Client, database: Database, refused: Refused) -> None:
    """Such as an earlier version stored: whose they are is not known."""
    ada = client("ada")
    ada.post("/v1/runs", json={"runs": RECORDS[:3]})
    with database.write() as session:
        session.execute(update(MeasuredRun).values(owner=None, visibility="public"))
    refused(ada.post("/v1/calibrations", json=BODY), 422, "invalid-input")
    assert ada.post("/v1/calibrations", json={**BODY, "shared": True}).json()["num_runs"] == 3


def test_equal_records_of_an_owner_are_stored_once(client: Client) -> None:
    ada, eve = client("ada"), client("eve")
    assert [one.post("/v1/runs", json={"runs": RECORDS[:1]}).json()["stored"] for one in (ada, ada, eve)] == [1, 0, 1]


def test_an_owner_stores_no_more_than_its_quota(client: Client, refused: Refused) -> None:
    ada, eve = client("ada"), client("eve")
    assert ada.post("/v1/runs", json={"runs": RECORDS}).json()["stored"] == 4
    many = [slowed(record, 2.0) for record in RECORDS]
    refused(ada.post("/v1/runs", json={"runs": many}), 429, "quota-exceeded")
    assert len(ids(ada)) == 4  # all or nothing
    assert ada.post("/v1/runs", json={"runs": RECORDS}).status_code == 200  # a repetition adds nothing
    assert eve.post("/v1/runs", json={"runs": many}).json()["stored"] == 4
    assert ada.post("/v1/runs", json={"runs": many[:2]}).json()["stored"] == 2


def test_runs_are_deleted_by_their_owner_and_by_admins(client: Client, refused: Refused) -> None:
    ada, eve, root = client("ada"), client("eve"), client("root", "admin")
    ada.post("/v1/runs", json={"runs": RECORDS[:2]})
    ada.post("/v1/runs?visibility=public", json={"runs": RECORDS[2:]})
    public, _, _, private = (item["record_sha256"] for item in ada.get("/v1/runs").json()["items"])
    refused(eve.delete(f"/v1/runs/{private}"), 404, "not-found")
    refused(eve.delete(f"/v1/runs/{public}"), 403, "forbidden")
    refused(eve.delete("/v1/runs", params={"owner": "ada"}), 403, "forbidden")
    refused(ada.delete("/v1/runs"), 422, "invalid-input")
    for name in ("0" * 64, "é" * 64, "none"):
        refused(ada.delete(f"/v1/runs/{name}"), 404, "not-found")
    assert ada.delete(f"/v1/runs/{private}").status_code == 204
    assert root.delete(f"/v1/runs/{public}").status_code == 204
    assert len(ids(ada)) == 2
    assert root.delete("/v1/runs", params={"owner": "ada"}).json() == {"deleted": 2}
    assert ids(ada) == []


def test_a_calibration_is_used_by_its_id_and_listed_and_deleted_by_its_owner(client: Client, refused: Refused) -> None:
    ada, eve = client("ada"), client("eve")
    for one in (ada, eve):
        one.post("/v1/runs", json={"runs": RECORDS})
    made = ada.post("/v1/calibrations", json=BODY).json()
    path = f"/v1/calibrations/{made['id']}"
    assert eve.get("/v1/calibrations").json()["items"] == []
    assert eve.get(path).json()["id"] == made["id"]
    refused(eve.delete(path), 403, "forbidden")
    assert eve.post("/v1/calibrations?visibility=public", json=BODY).json()["id"] == made["id"]  # of equal runs
    owners = [item["owner"] for item in ada.get("/v1/calibrations").json()["items"]]
    assert owners == ["eve", "ada"]
    assert ada.delete(path).status_code == 204
    assert [item["owner"] for item in ada.get("/v1/calibrations").json()["items"]] == ["eve"]
    refused(ada.delete(path), 403, "forbidden")
    assert eve.delete(path).status_code == 204
    refused(eve.delete(path), 404, "not-found")


def test_old_runs_and_calibrations_are_deleted_if_asked(
    client: Client, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ada = client("ada")
    ada.post("/v1/runs", json={"runs": RECORDS[:3]})
    ada.post("/v1/calibrations", json=BODY)
    with database.write() as session:
        for table in (MeasuredRun, Calibration):
            session.execute(update(table).values(created_at_s=table.created_at_s - 10 * SECONDS_PER_DAY))
    ada.post("/v1/runs", json={"runs": RECORDS[3:]})
    assert pruning.prune(database, Retention()) == pruning.Pruned(0, 0, 0, 0, 0, 0)
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", database_url)
    monkeypatch.setenv("MESHPLAN_KEEP_RUNS_DAYS", "9")
    assert main(["db", "prune", "--dry-run"]) == 0
    assert "3 runs, 1 calibrations." in capsys.readouterr().out
    assert main(["db", "prune", "--runs-days", "11"]) == 0
    assert "0 runs, 0 calibrations." in capsys.readouterr().out
    assert main(["db", "prune"]) == 0
    assert "3 runs, 1 calibrations." in capsys.readouterr().out
    assert ids(ada) == [RECORDS[3]["id"]]

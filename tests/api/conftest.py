"""A server in this process over a database of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.server.application import create_app
from app.storage.session import Database
from app.studies import queue
from app.studies.runner import StudyRun
from tests.databases import database, database_url, postgresql, sqlite_template

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]

LOCAL = "http://127.0.0.1:8765"
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
    "search": {"tp": [4, 8], "pp": 1, "cp": 1, "recompute": ["none", "full"], "zero_stage": 1},
}


@pytest.fixture
def kind() -> str:
    """Kind of database; a module whose answers depend on it has all kinds."""
    return "sqlite"


@pytest.fixture
def api(database: Database) -> Iterator[TestClient]:
    with TestClient(create_app(database), base_url=LOCAL, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def job() -> dict[str, Any]:
    return {**JOB}


@pytest.fixture
def finish(database: Database) -> Callable[[str], None]:
    """Runs the oldest waiting study, which must be the given one, to its end."""

    def run(study_id: str) -> None:
        with database.write() as session:
            lease = queue.claim(session, "test", 10.0)
        assert lease is not None
        assert lease.study_id == study_id
        StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run()

    return run


@pytest.fixture
def refused() -> Callable[..., dict[str, Any]]:
    """Checks that an answer is a problem document, and returns it."""

    def check(response: Any, status: int, kind: str) -> dict[str, Any]:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        problem: dict[str, Any] = response.json()
        assert set(problem) == {"type", "title", "status", "detail", "pointer", "parameter", "hint", "instance"}
        assert problem["type"] == f"urn:meshplan:problem:{kind}"
        assert problem["status"] == status
        assert problem["detail"].endswith(".")
        assert problem["hint"]
        assert "Traceback" not in response.text
        return problem

    return check

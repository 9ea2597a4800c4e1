"""A server in this process over a database of its own."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from fastapi.testclient import TestClient

from app.server.application import create_app
from app.storage.session import Database
from app.studies import queue
from app.studies.runner import StudyRun
from tests.databases import database, database_url, postgresql, sqlite_template
from tests.openapi import openapi

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


@cache
def _schema(path: str, method: str, status: str) -> jsonschema.Draft202012Validator:
    """Of the JSON answers of an operation, as the OpenAPI document says."""
    content = openapi()["paths"][path][method]["responses"][status]["content"]
    (media,) = content.values()
    return jsonschema.Draft202012Validator({**media["schema"], "components": openapi()["components"]})


def check_answer(response: Any) -> None:
    """Every answer is what its schema says, also where the server sends columns or what a study holds without a look at it."""
    path = unquote(response.request.url.path)
    templates = [name for name in openapi()["paths"] if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name)), path)]
    if not path.startswith("/v1/") or not templates or response.status_code in (204, 304, 405):
        return
    if "json" not in response.headers.get("content-type", ""):
        return
    template = max(templates, key=lambda name: len(re.sub(r"{\w+}", "", name)))
    response.read()
    method = response.request.method.lower()
    if method in openapi()["paths"][template]:
        _schema(template, method, str(response.status_code)).validate(response.json())


@pytest.fixture
def api(database: Database) -> Iterator[TestClient]:
    with TestClient(create_app(database), base_url=LOCAL, raise_server_exceptions=False) as client:
        client.event_hooks["response"].append(check_answer)
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

"""``/healthz``, ``/readyz``, ``/metrics``."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import update

from app.http import keys
from app.http.metrics import Processes
from app.server.application import create_app
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import Study
from app.studies import queue
from meshplan import __version__
from tests.api.conftest import LOCAL

Refused = Callable[..., dict[str, Any]]


def test_probes_answer(api: TestClient) -> None:
    assert api.get("/healthz").json() == {"status": "ok", "version": __version__}
    assert api.get("/readyz").json() == {"status": "ready", "version": __version__}


def test_a_server_without_tables_is_alive_but_not_ready(tmp_path: Path, refused: Refused) -> None:
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    with TestClient(create_app(database), base_url=LOCAL) as api:
        assert api.get("/healthz").status_code == 200
        assert "meshplan db upgrade" in refused(api.get("/readyz"), 503, "unavailable")["detail"]
    database.close()


def test_a_server_whose_database_is_gone_is_not_ready(tmp_path: Path, refused: Refused) -> None:
    database = Database(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.db'}")
    with TestClient(create_app(database), base_url=LOCAL) as api:
        refused(api.get("/readyz"), 503, "unavailable")
        response = api.get("/v1/studies")
        refused(response, 503, "unavailable")
        assert response.headers["retry-after"] == "2"
        assert api.get("/v1/models").status_code == 200  # what needs no database is answered
    database.close()


def test_a_stopping_server_is_not_ready(api: TestClient, refused: Refused) -> None:
    api.app.state.server.stopping.set()
    refused(api.get("/readyz"), 503, "unavailable")


def test_metrics_tell_a_queue_that_stands_still(api: TestClient, database: Database, job: dict[str, Any]) -> None:
    ids = [api.post("/v1/studies", json=job).json()["id"] for _ in range(3)]
    with database.write() as session:
        for _ in range(2):
            queue.claim(session, "test", 10.0)
        now = now_s(session)
        session.execute(update(Study).where(Study.id == ids[0]).values(lease_expires_at_s=now - 5, attempts_without_progress=4))
        session.execute(update(Study).where(Study.id == ids[2]).values(queued_at_s=now - 700))
    found = dict(re.findall(r"^meshplan_(\w+) (\S+)$", api.get("/metrics").text, re.MULTILINE))
    names = ("leases", "overdue_leases", "attempts_without_progress", "running_attempts")
    assert [float(found[name]) for name in names] == [1.0, 1.0, 4.0, 2.0]
    assert 700.0 <= float(found["queue_age_seconds"]) < 900.0


def test_metrics_count_requests_by_route_and_studies_by_state(api: TestClient, job: dict[str, Any]) -> None:
    study = api.post("/v1/studies", json=job).json()["id"]
    api.get(f"/v1/studies/{study}")
    api.get("/v1/studies/none")
    api.get("/nothing/here")
    text = api.get("/metrics").text
    assert 'meshplan_http_requests_total{method="GET",route="/v1/studies/{study_id}",status="200"} 1.0' in text
    assert 'meshplan_http_requests_total{method="GET",route="/v1/studies/{study_id}",status="404"} 1.0' in text
    assert 'meshplan_http_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert 'meshplan_studies{state="queued"} 1.0' in text
    assert 'meshplan_studies{state="running"} 0.0' in text
    assert study not in text  # a stranger's words are no labels
    found = dict(re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE))
    assert 0.0 <= float(found["meshplan_queue_age_seconds"]) < 60.0
    counted = {
        name: float(found[f"meshplan_{name}"]) for name in ("queue_owners", "leases", "overdue_leases", "running_attempts")
    }
    assert counted == {"queue_owners": 1.0, "leases": 0.0, "overdue_leases": 0.0, "running_attempts": 0.0}
    assert float(found["process_resident_memory_bytes"]) > 1e7
    assert float(found["meshplan_worker_restarts_total"]) == 0.0
    assert re.search(r'meshplan_http_request_duration_seconds_count\{method="POST",route="/v1/studies"\} 1\.0', text)


def test_metrics_tell_the_processes_of_each_class(api: TestClient) -> None:
    metrics = api.app.state.server.metrics  # type: ignore[attr-defined]
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    metrics.watch_processes(lambda: [Processes("estimates", (os.getpid(),), 3, 7), Processes("studies", (gone.pid,), 0, 0)])
    found = dict(re.findall(r"^meshplan_(\w+\{class=.*\}) (\S+)$", api.get("/metrics").text, re.MULTILINE))
    counted = {name: float(value) for name, value in found.items() if not name.startswith("processes_resident")}
    assert counted == {
        'processes{class="estimates"}': 1.0,
        'processes{class="studies"}': 1.0,
        'waiting_requests{class="estimates"}': 7.0,
        'waiting_requests{class="studies"}': 0.0,
        'process_restarts_total{class="estimates"}': 3.0,
        'process_restarts_total{class="studies"}': 0.0,
    }
    assert float(found['processes_resident_bytes{class="estimates"}']) > 2**20
    assert float(found['processes_resident_bytes{class="studies"}']) == 0.0


def test_counts_of_all_owners_are_for_keys_that_are_made_for_them(database: Database, job: dict[str, Any]) -> None:
    app = create_app(database, keys_required=True)
    scopes: dict[str, tuple[keys.Scope, ...]] = {
        "ada": keys.USUAL_SCOPES,
        "eve": ("read",),
        "probe": ("metrics",),
        "root": ("admin",),
    }
    with database.write() as session:
        secrets = {name: keys.create_key(session, name, given, None)[1] for name, given in scopes.items()}
    with TestClient(app, base_url="https://planner.example") as client:

        def ask(name: str, method: str, path: str, **given: Any) -> Any:
            return client.request(method, path, headers={"Authorization": f"Bearer {secrets[name]}"}, **given)

        for _ in range(3):
            assert ask("ada", "POST", "/v1/studies", json=job).status_code == 202
        told = {name: ask(name, "GET", "/metrics").text for name in scopes}
        waiting = {name: re.findall(r'^meshplan_studies\{state="queued"\} (\S+)$', text, re.M) for name, text in told.items()}
        assert waiting == {"ada": ["3.0"], "eve": ["0.0"], "probe": ["3.0"], "root": ["3.0"]}
        all_of_them = {"ada": False, "eve": False, "probe": True, "root": True}
        for name in ("meshplan_queue_owners", "meshplan_http_requests_total", "meshplan_processes", "process_resident_memory"):
            assert {caller: name in text for caller, text in told.items()} == all_of_them, name
        assert ask("probe", "GET", "/v1/studies").status_code == 403

"""``meshplan serve`` as a user runs it: a process, a port, a database, workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.jobs.job import parse_job
from app.text.json_documents import plain
from meshplan import Client, MeshplanError
from tests.api.run_records import HARDWARE, STACK, usable_records
from tests.api.test_open_fields import FINE_TUNE
from tests.commands import command
from tests.servers import ROOT, Server, running_server

SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "search": {"tp": [1, 2, 4, 8], "cp": 1, "recompute": ["none", "full"]},
}
# Many seconds, so that a kill falls into the middle.
LARGE: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "search": {"top": 5},
}
RECOVERY_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as opened:
        yield opened


def comparable(plans: list[Any]) -> list[Any]:
    return json.loads(json.dumps(plans))


def test_a_study_is_created_followed_and_read_as_the_command_answers(client: Client) -> None:
    study = client.submit(SMALL)
    assert study.state in ("queued", "running")
    events = list(client.events(study.id))
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})
    assert [event.data["state"] for event in events if event.kind == "state"][-1] == "completed"
    done = client.study(study.id)
    local = plain(search_document(with_usual_target(parse_job(SMALL))))
    assert done.result is not None
    assert done.result["counts"] == local["counts"]
    assert comparable([plan.document for plan in client.plans(study.id)]) == comparable(local["plans"])
    assert client.rejections(study.id) == local["rejections"]
    best = client.plans(study.id)[0]
    assert client.launch(study.id, best.plan_id)["launch"] == best.document["launch"]


def test_events_go_on_where_a_client_left_off(client: Client) -> None:
    study = client.submit(SMALL)
    client.wait(study.id, timeout_s=60)
    events = list(client.events(study.id))
    assert len(events) >= 2
    assert list(client.events(study.id, after=events[0].sequence)) == events[1:]
    assert list(client.events(study.id, after=events[-1].sequence)) == []


def test_the_first_request_that_serve_prints_works(server: Server) -> None:
    assert server.url in server.greeting
    request = "".join(server.read_lines(3)[1:]).strip()  # after "Try:"
    assert request.startswith("curl ")
    run = subprocess.run(["bash", "-c", request], capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(run.stdout)
    assert document["state"] == "completed"
    assert document["plans"][0]["rank"] == 1


def python_examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/rest.md"])
def test_the_documented_use_of_the_client_works(server: Server, page: str) -> None:
    example = python_examples(page)[0]
    assert "http://127.0.0.1:8765" in example
    program = example.replace("http://127.0.0.1:8765", server.url)
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert re.search(r"\d+ \d+ \d+\.\d+\n$", run.stdout), run.stdout  # tp, pp and a step time


def test_the_examples_of_the_python_page_work_one_after_the_other(server: Server, tmp_path: Path) -> None:
    program = "\n".join(python_examples("docs/python.md")).replace("http://127.0.0.1:8765", server.url)
    asked = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    run = subprocess.run([sys.executable, "-c", program], **asked, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    local, lines = run.stdout.splitlines()[:12], run.stdout.splitlines()[12:]
    assert re.match(r"This plan is [\d.]+% (slower|faster) than the other: it ", local[7])
    assert re.fullmatch(r"\([\d.]+, [\d.]+\) [\d.]+ \[\]", local[8])
    assert re.fullmatch(r"\[\(8, [\d.]+\), \(16, [\d.]+\)\]", local[9])
    assert local[10] == "passed"
    assert 0.0 < float(local[11]) < 1.0
    assert (tmp_path / "plans" / "plan-1.job.yaml").is_file()
    assert re.fullmatch(r"<LocalPlan: [\d.]+ s a step, [\d.]+ GiB, fits> True", local[0])
    *ranks, recommended = [int(line.split()[0]) for line in local[1:5]]
    assert ranks == [1, 2, 3]
    assert recommended > 3
    assert re.fullmatch(r"\d+ bars", local[6])
    *events, best, named, archived, refusal, first, second, third, verdict, kept, histories, moved, recovered, bound_by, both = (
        lines
    )
    assert (named, archived) == ("['Tender, variant B']", "True 0")
    assert re.fullmatch(r"\[\('0a1b2c3', '(passed|broken)', [\d.]+\)\]", kept)
    assert re.fullmatch(r"\[1\] [03]", histories)
    assert "layers change" in moved
    assert float(recovered) >= 0
    assert "of the step" in bound_by
    assert both.startswith("([True, True], ")
    assert {"state"} <= set(events) <= {"state", "progress"}
    assert re.fullmatch(r"\d+\.\d{3} s, launched with mindspeed-llm@master", best)
    assert re.match(r"422 #/strategy\S* .*tp", refusal)
    assert float(first) > 0 < float(second)
    assert "tp" in third
    assert verdict == "passed 0"


def test_the_documented_way_from_runs_to_a_price_works(server: Server, client: Client, tmp_path: Path) -> None:
    lines = [json.dumps(record) for record in usable_records(2)]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    program = python_examples("docs/rest.md")[1].replace("http://127.0.0.1:8765", server.url)
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr
    refused, errors, step_time_s = run.stdout.splitlines()
    assert refused == "0 refused"
    assert float(errors.split()[0]) >= 0
    assert float(step_time_s) > 0
    assert [stored["record"] for stored in client.runs()] == usable_records(2)[::-1]
    (summary,) = client.calibrations()
    found = client.calibration(summary["id"])
    assert (found.hardware, found.stack, found.num_runs) == (HARDWARE, STACK, 2)
    assert found.file["hardware"] == HARDWARE
    job = {**SMALL, "strategy": {"tp": 8}}
    assert client.check(job, budget={"step_time_s": {"max": 1000}})["status"] == "passed"
    with pytest.raises(MeshplanError, match="no stored calibration") as refusal:
        client.submit({**SMALL, "software": {"calibration": "0123456789ab"}})
    assert refusal.value.pointer == "#/software/calibration"
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**SMALL, "cluster": {"hardware": HARDWARE, "num_devices": 8}}), encoding="utf-8")
    run = command("search", path, "--json", "--server", server.url, "--calibration", found.id)
    assert run.returncode == 0, run.stderr
    priced = json.loads(run.stdout)
    assert priced["priced_with"]["calibration"] == found.id
    assert any(found.id in sentence for sentence in priced["assumptions"])


def test_a_waiting_request_ends_with_the_result_or_in_time(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=90) as http:
        answered = http.post("/v1/studies", json=SMALL, headers={"Prefer": "wait=50"})
        assert answered.status_code == 200
        assert answered.headers["preference-applied"] == "wait=50"
        assert answered.json()["plans"]
        started_s = time.monotonic()
        late = http.post("/v1/studies", json=LARGE, headers={"Prefer": "wait=1"})
        assert 0.9 <= time.monotonic() - started_s < 10
        assert late.status_code == 202
        cancelled = http.post(f"{late.headers['location']}:cancel")
        assert cancelled.status_code == 200


def test_search_on_a_server_prints_what_a_local_search_prints(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(SMALL))
    local, remote = (
        command("search", path, "--json", *more)
        for more in ([], ["--server", server.url, "--name", "tender A", "--tag", "b, a", "--tag", "c", "--note", "who asked"])
    )
    assert remote.returncode == local.returncode == 0, remote.stderr
    here, there = json.loads(local.stdout), json.loads(remote.stdout)
    assert list(there) == list(here)
    for name in set(here) - {"timing"}:
        assert there[name] == here[name], name
    with Client(server.url) as client:
        [named] = client.studies(text="tender A")
        study = client.study(named["id"])
    assert [study.document[label] for label in ("name", "tags", "note")] == ["tender A", ["a", "b", "c"], "who asked"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_search_on_a_server_warns_as_one_here(server: Server, tmp_path: Path, language: str) -> None:
    path = tmp_path / "tune.json"
    path.write_text(json.dumps(FINE_TUNE))
    words = ("search", path, "--json")
    local, remote = (command(*words, *more, MESHPLAN_LANGUAGE=language) for more in ([], ["--server", server.url]))
    here, there = (json.loads(run.stdout)["warnings"] for run in (local, remote))
    assert there == here
    assert len(here) == 2  # lengths, and a switch that is forbidden for nothing


def test_sweeps_and_placements_on_a_server_print_what_they_print_here(server: Server, tmp_path: Path) -> None:
    job = {**SMALL, "sweep": {"devices": [8, 16]}}
    post = {"prompts": 32, "samples": 4, "lengths": {"cap": 600, "histogram": "lengths.csv"}, "placement": "fully-colocated"}
    (tmp_path / "lengths.csv").write_text("length,weight\n300,2\n600,1\n", encoding="utf-8")
    files = {"sweep": job, "rl": {"model": "qwen3-8b", "cluster": SMALL["cluster"], "post_training": post, "strategy": {"tp": 4}}}
    for name, document in files.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        words = ("rl", "search") if name == "rl" else ("sweep",)
        local, remote = (
            command(*words, path, "--json", *more) for more in ([], ["--server", server.url, "--name", f"my {name}"])
        )
        assert remote.returncode == local.returncode == 0, remote.stderr
        here, there = json.loads(local.stdout), json.loads(remote.stdout)
        assert {**there, "elapsed_s": 0} == {**here, "elapsed_s": 0}, name
    with Client(server.url) as client:
        assert {study["kind"] for study in client.studies()} >= {"sweep", "rl"}
        assert {study["name"] for study in client.studies(text="my")} == {"my sweep", "my rl"}
        study = next(client.studies(kind="sweep"))
        assert [point["num_devices"] for point in client.points(study["id"])] == [8, 16]
        assert client.rl_estimate({**files["rl"], "post_training": {**post, "lengths": {"mean": 300, "cap": 600}}})["step_time_s"]


def test_an_infeasible_search_on_a_server_exits_4(server: Server) -> None:
    few = ("--hardware", "atlas-800t-a2", "--devices", "1")
    run = command("search", "llama-2-70b", *few, "--server", server.url, "--json")
    assert run.returncode == 4, run.stderr
    assert json.loads(run.stdout)["plans"] == []


def test_a_second_server_on_the_same_port_says_so(server: Server, tmp_path: Path) -> None:
    again = [sys.executable, "-m", "meshplan", "serve", "--port", str(server.port)]
    environment = {**server.environment, "MESHPLAN_DATA_DIR": str(tmp_path)}
    run = subprocess.run(again, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert f"127.0.0.1:{server.port} cannot be used (address already in use)" in run.stderr
    assert not list(tmp_path.iterdir())  # nothing was made before the port was sure


def test_after_a_restart_everything_is_there(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, Client(server.url) as client:
        study = client.wait(client.submit(SMALL).id, timeout_s=60)
        plans = client.plans(study.id)
        assert server.stop() == 0
        server.start()
        assert client.study(study.id).document == study.document
        assert client.plans(study.id) == plans
        assert [item["id"] for item in client.studies()] == [study.id]


@pytest.mark.slow
def test_a_study_survives_the_kill_of_its_server(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, Client(server.url) as client:
        study = client.submit(LARGE)
        for event in client.events(study.id):
            if event.kind == "progress" and event.data["enumerated"] > 0:
                break
        server.kill()
        server.start()
        done = client.wait(study.id, timeout_s=RECOVERY_S)
        assert done.state == "completed"
        assert done.document["attempts"] >= 2
        interrupted = client.plans(study.id)
        undisturbed = client.wait(client.submit(LARGE).id, timeout_s=RECOVERY_S)
        assert interrupted == client.plans(undisturbed.id)
        assert done.result is not None
        assert undisturbed.result is not None
        assert done.result["counts"] == undisturbed.result["counts"]


def test_a_stream_ends_when_the_server_is_asked_to(tmp_path: Path) -> None:
    with running_server(tmp_path, "--workers", "0") as server, Client(server.url) as client:
        study = client.submit(SMALL)
        with httpx.stream("GET", f"{server.url}/v1/studies/{study.id}/events", timeout=30) as response:
            next(response.iter_lines())
            started_s = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - started_s < 5
        assert "Traceback" not in server.log()


def test_keys_are_required_where_asked(tmp_path: Path) -> None:
    with running_server(tmp_path, "--require-keys", "--workers", "0") as server:

        def keys(*arguments: str) -> str:
            run = command("keys", *arguments, MESHPLAN_DATA_DIR=str(server.folder))
            assert run.returncode == 0, run.stderr
            return run.stdout

        with Client(server.url) as nobody, pytest.raises(MeshplanError) as caught:
            nobody.models()
        assert caught.value.status == 401
        secret = keys("create", "planner", "--owner", "team").strip()
        reading = keys("create", "dashboard", "--owner", "team", "--scope", "read", "--days", "2").strip()
        with Client(server.url, api_key=secret) as planner:
            study = planner.submit(SMALL)
        with Client(server.url, api_key=reading) as dashboard:
            assert dashboard.study(study.id).state == "queued"
            with pytest.raises(MeshplanError, match="may not write"):
                dashboard.cancel(study.id)
        listing = keys("list")
        assert secret not in listing
        assert re.search(rf"planner +team +{secret[:8]} +read, write", listing)
        keys("revoke", "planner")
        with Client(server.url, api_key=secret) as planner, pytest.raises(MeshplanError) as caught:
            planner.study(study.id)
        assert caught.value.status == 401
        assert secret not in server.log()

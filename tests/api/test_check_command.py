"""``meshplan check --server``: the command's own verdict, and the server's in its history."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from fastapi.testclient import TestClient

from app.cli import check_upload
from app.cli.main import main
from app.exit_codes import BAD_INPUT, BUDGET_BROKEN, DONE, NOTHING_FEASIBLE
from calibration.files.calibrations import shipped_calibration, write_calibration
from meshplan.client import Client
from tests.api.conftest import JOB, LOCAL
from tests.commands import ROOT

CI = {"GITLAB_CI": "true", "CI_COMMIT_SHA": "cccc333", "CI_COMMIT_REF_NAME": "fast", "CI_PROJECT_URL": "https://git.example/a"}
VARIABLES = ("GITHUB_ACTIONS", "GITLAB_CI", "MESHPLAN_API_KEY")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: TestClient) -> Iterator[Path]:
    """A job and a budget, and commands whose client talks to the server of this process."""

    def passed_on(request: httpx.Request) -> httpx.Response:
        kept = {name: request.headers[name] for name in ("content-type", "idempotency-key") if name in request.headers}
        answer = api.request(request.method, request.url.path, content=request.content, headers=kept)
        return httpx.Response(
            answer.status_code, headers={"content-type": answer.headers["content-type"]}, content=answer.content
        )

    def connected(url: str, **options: Any) -> Client:
        return Client(url, **options, transport=httpx.MockTransport(passed_on))

    monkeypatch.setattr(check_upload, "Client", connected)
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    write("job.yaml", {**JOB, "strategy": {"tp": 8}})
    write("budget.yaml", {"step_time_s": {"max": 60}})
    return tmp_path


def write(name: str, document: Any) -> None:
    Path(name).write_text(yaml.safe_dump(document), encoding="utf-8")


def kept(api: TestClient, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get("/v1/checks", params=query).json()["items"]
    return items


def check(*arguments: str) -> int:
    return main(["check", "job.yaml", "--budget", "budget.yaml", "--server", LOCAL, *arguments])


@pytest.mark.usefixtures("folder")
def test_the_check_is_kept_with_the_change_of_the_pipeline(
    api: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in CI.items():
        monkeypatch.setenv(name, value)
    assert check("--format", "json", "--output", "own.json") == DONE
    said = capsys.readouterr()
    (item,) = kept(api)
    assert (item["name"], item["commit"], item["branch"]) == ("job.yaml", "cccc333", "fast")
    assert item["taken_from"] == {"commit": "CI_COMMIT_SHA", "branch": "CI_COMMIT_REF_NAME", "change_url": "CI_COMMIT_SHA"}
    assert f"kept in the history 'job.yaml' as {LOCAL}/checks/{item['id']}: commit cccc333 (CI_COMMIT_SHA)" in said.err.replace(
        "\n", " "
    )
    own = json.loads(Path("own.json").read_text(encoding="utf-8"))
    assert api.get(f"/v1/checks/{item['id']}").json()["check"]["estimate"] == own["estimate"]


@pytest.mark.usefixtures("folder")
def test_broken_and_infeasible_checks_are_kept_and_exit_codes_stay(api: TestClient) -> None:
    write("budget.yaml", {"step_time_s": {"max": 1}})
    assert check("--history", "strict", "--commit", "0a1b2c3", "--visibility", "link") == BUDGET_BROKEN
    write("job.yaml", {**JOB, "strategy": {"tp": 3}})
    assert check() == NOTHING_FEASIBLE
    assert [(item["name"], item["status"]) for item in kept(api)] == [("job.yaml", "infeasible"), ("strict", "broken")]
    assert kept(api, name="strict")[0]["taken_from"] == {"commit": "--commit"}


@pytest.mark.usefixtures("folder")
def test_the_server_is_given_the_baseline_and_its_name(api: TestClient) -> None:
    assert main(["check", "job.yaml", "--write-baseline", "before.json"]) == DONE
    write("job.yaml", {**JOB, "strategy": {"tp": 8, "recompute": "full"}})
    assert check("--baseline", "before.json", "--pin") == BUDGET_BROKEN
    (item,) = kept(api)
    assert (item["status"], item["moved"]["against"], item["moved"]["pinned"]) == ("broken", "before.json", True)


@pytest.mark.usefixtures("folder")
def test_several_jobs_go_into_histories_of_their_own(api: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    write("other.yaml", {**JOB, "strategy": {"tp": 4}})
    assert check("other.yaml") == DONE
    assert [item["name"] for item in kept(api)] == ["other.yaml", "job.yaml"]
    assert check("other.yaml", "--history", "both") == BAD_INPUT
    assert "--history: it names the history of one job, and 2 are given" in capsys.readouterr().err
    assert len(kept(api)) == 2


@pytest.mark.usefixtures("folder")
def test_a_history_that_cannot_be_written_is_no_fault_of_the_jobs(
    api: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("meshplan.request_steps.FIRST_PAUSE_S", 0.0)
    away = httpx.MockTransport(lambda request: (_ for _ in ()).throw(httpx.ConnectError("refused")))
    monkeypatch.setattr(check_upload, "Client", lambda url, **options: Client(url, transport=away))
    assert check() == DONE
    assert "--server: job.yaml is not kept: no server answers" in capsys.readouterr().err
    refusing = httpx.MockTransport(lambda request: httpx.Response(403, json={"detail": "The API key may not write."}))
    monkeypatch.setattr(check_upload, "Client", lambda url, **options: Client(url, transport=refusing))
    assert check() == DONE
    assert "not kept: The API key may not write." in capsys.readouterr().err
    assert kept(api) == []


@pytest.mark.usefixtures("folder")
def test_a_server_that_judges_otherwise_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"id": "0a", "status": "broken", "version": "9.9"}
    other = httpx.MockTransport(lambda request: httpx.Response(201, json=answer))
    monkeypatch.setattr(check_upload, "Client", lambda url, **options: Client(url, transport=other))
    assert check() == DONE
    told = capsys.readouterr().err.replace("\n", " ")
    assert "the server, of version 9.9, judges broken, and this command passed" in told


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--server", LOCAL, "--commit", "a b"), "--commit: 'a b' is not allowed"),
        (("--server", LOCAL, "--change-url", "javascript:1"), "--change-url: 'javascript:1' is not allowed"),
        (("--server", LOCAL, "--history", " "), "--history: ' ' is not allowed"),
        (("--server", LOCAL, "--visibility", "all"), "--visibility: 'all' is not allowed"),
        (("--server", "ftp://x"), "--server: 'ftp://x' is not the URL of a server."),
        (("--commit", "abc"), "--commit: given without --server"),
        (("--visibility", "public"), "--visibility: given without --server"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_is_priced(
    api: TestClient, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(["check", "job.yaml", "--budget", "budget.yaml", *arguments]) == BAD_INPUT
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""
    assert kept(api) == []


@pytest.fixture
def own_files(folder: Path) -> dict[str, Any]:
    """A job on a profile and a calibration of this machine, with numbers that no server has."""
    (folder / "files").mkdir()
    text = (ROOT / "hardware_profiles/ascend/atlas-800t-a2.yaml").read_text(encoding="utf-8")
    text = text.replace("name: atlas-800t-a2", "name: own").replace("{value: 294.9, unit: TFLOPS", "{value: 200, unit: TFLOPS", 1)
    Path("files/own.yaml").write_text(text, encoding="utf-8")
    write_calibration(Path("files/own.json"), shipped_calibration("ascend"))
    job = {**JOB, "cluster": {"hardware": "files/own.yaml", "num_devices": 8}, "software": {"calibration": "files/own.json"}}
    write("job.yaml", {**job, "strategy": {"tp": 8}})
    return job


def test_numbers_of_files_of_this_machine_travel_with_the_job(api: TestClient, own_files: dict[str, Any]) -> None:
    outputs = ("--format", "json", "--output", "own.json", "--write-baseline", "before.json")
    assert check(*outputs) == DONE
    own = json.loads(Path("own.json").read_text(encoding="utf-8"))
    (item,) = kept(api)
    judged = api.get(f"/v1/checks/{item['id']}").json()["check"]
    assert (item["status"], item["hardware"]) == ("passed", "own.yaml")
    assert judged["estimate"] == own["estimate"]
    assert judged["priced_with"] == own["priced_with"]
    assert "cluster.hardware = own.yaml: numbers of the request's hardware_profile" in judged["assumptions"]
    assert judged["job"]["software"]["calibration"] == "own.json"
    # A baseline of the same files has no change of the job in it, although its paths are longer.
    assert check("--baseline", "before.json") == DONE
    assert kept(api)[0]["moved"]["job_changes"] == []
    write("job.yaml", {**own_files, "strategy": {"tp": 3}})
    assert check() == NOTHING_FEASIBLE
    assert (kept(api)[0]["status"], len(kept(api))) == ("infeasible", 3)


def test_numbers_that_a_request_brings_are_held_to_what_it_names(api: TestClient, own_files: dict[str, Any]) -> None:
    profile = yaml.safe_load(Path("files/own.yaml").read_text(encoding="utf-8"))
    calibration = json.loads(Path("files/own.json").read_text(encoding="utf-8"))
    body = {**JOB, "strategy": {"tp": 8}, "budget": {"step_time_s": {"max": 60}}}

    def refusal(**parts: Any) -> str:
        answer = api.post("/v1/checks", json={**body, **parts})
        assert answer.status_code == 422
        return str(answer.json()["detail"])

    ours = {"hardware": "own.yaml", "num_devices": 8}
    assert "own.yaml" in refusal(cluster=ours)
    assert "hardware_profile: given beside 'atlas-800t-a2', which the server has" in refusal(hardware_profile=profile)
    assert "hardware_profile: " in refusal(cluster=ours, hardware_profile={**profile, "hbm_bytes": -1})
    assert "calibration: given, and software.calibration names none" in refusal(calibration=calibration)
    named = {"calibration": "own.json"}
    assert "calibration: format" in refusal(software=named, calibration={**calibration, "format": "x"})
    assert "calibration: 1 is not allowed; give a mapping" in refusal(software=named, calibration=1)
    other = {**calibration, "hardware": "atlas-900-a3"}
    assert "was fitted for" in refusal(software=named, calibration=other)

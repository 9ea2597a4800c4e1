"""`meshplan check` as a CI job runs it: every exit code, every format, every documented command."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.commands import ROOT, command, process

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e11},
    "search": {"tp": [4, 8], "pp": 1, "cp": 1, "vpp": 1, "micro_batch_size": [1, 2], "recompute": "none"},
    "strategy": {"tp": 8, "micro_batch_size": 1},
}
GENEROUS = {"step_time_s": {"max": 60}, "headroom_bytes": {"min": 1e9}, "device_days": {"max": 5000}}


def meshplan(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(*arguments, folder=folder)


def write(folder: Path, name: str, document: Any) -> str:
    (folder / name).write_text(yaml.safe_dump(document), encoding="utf-8")
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "job.yaml", JOB)
    write(tmp_path, "budget.yaml", GENEROUS)
    return tmp_path


def check(folder: Path, *arguments: str, code: int, job: str = "job.yaml", budget: str = "budget.yaml") -> str:
    run = meshplan(folder, "check", job, "--budget", budget, *arguments)
    assert run.returncode == code, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr if code in (1, 2) else run.stdout


def test_exit_0_within_three_seconds_without_a_server_or_a_database(folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = process("check", "job.yaml", "--budget", "budget.yaml", folder=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (run.returncode, run.stderr) == (0, "")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3.0  # of one core, whatever else runs here
    assert run.stdout.rstrip().endswith("PASSED: 5 of 5 checks passed")
    assert sorted(path.name for path in folder.iterdir()) == ["budget.yaml", "job.yaml"]


def test_exit_1_where_the_fault_is_ours(folder: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(
            [sys.executable, "-m", "meshplan", "check", "job.yaml", "--budget", "budget.yaml", "--format", "json"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert run.returncode == 1
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["absent.yaml", "--budget", "budget.yaml"], "absent.yaml"),
        (["job.yaml", "--budget", "absent.yaml"], "absent.yaml: no such file"),
        (["job.yaml", "--budget", "budget.yaml", "--baseline", "absent.json"], "absent.json: no such file"),
        (["job.yaml", "--budget", "budget.yaml", "--baseline", "budget.yaml"], "budget.yaml"),
        (["job.yaml", "--budget", "typo.yaml"], "did you mean 'step_time_s'?"),
        (["job.yaml", "--budget", "budget.yaml", "--pin"], "pin (--pin): there is no baseline"),
        (["job.yaml", "--budget", "budget.yaml", "--format", "jnuit"], "did you mean 'junit'?"),
        (["job.yaml", "--budget", "budget.yaml", "--output", "a", "--output", "b"], "2 files are given for 1 formats"),
        (["job.yaml", "--budget", "budget.yaml", "--format", "json,table", "--output", "a", "--output", "a"], "is given twice"),
        (["job.yaml", "--budget", "budget.yaml", "--format", "table,sarif", "--output", "out.sarif"], "order of their files"),
        (
            ["job.yaml", "--budget", "budget.yaml", "--output", "absent/report.txt"],
            "--output: absent/report.txt is in no folder that exists",
        ),
        (["job.yaml"], "--budget: missing"),
        (["malformed.yaml", "--budget", "budget.yaml"], "strategy.tp"),
    ],
)
def test_exit_2_with_one_sentence(folder: Path, arguments: list[str], part: str) -> None:
    write(folder, "typo.yaml", {"step_tim_s": {"max": 1}})
    write(folder, "malformed.yaml", {**JOB, "strategy": {"tp": "eight"}})
    run = meshplan(folder, "check", *arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1
    assert part in run.stderr


def test_exit_3_where_a_budget_is_broken(folder: Path) -> None:
    write(folder, "budget.yaml", {**GENEROUS, "step_time_s": {"max": 1}})
    assert "BUDGET BROKEN: 4 of 5" in check(folder, code=3)


@pytest.mark.parametrize(
    "strategy",
    [{"tp": 3}, {"tp": 1, "micro_batch_size": 3}, {"tp": 1, "micro_batch_size": 8, "features": []}],
    ids=["does not divide the devices", "breaks a rule", "does not fit"],
)
def test_exit_4_where_the_strategy_cannot_run(folder: Path, strategy: dict[str, Any]) -> None:
    write(folder, "job.yaml", {**JOB, "strategy": strategy})
    text = check(folder, "--format", "json", code=4)
    assert json.loads(text)["status"] == "infeasible"


def test_exit_4_without_a_plan(folder: Path) -> None:
    write(folder, "job.yaml", {key: value for key, value in JOB.items() if key != "strategy"} | {"model": "llama-2-70b"})
    assert "INFEASIBLE" in check(folder, code=4)


def test_exit_5_where_the_search_was_cut(folder: Path) -> None:
    limits = {"time_limit_s": 1e-3}
    write(folder, "job.yaml", {**JOB, "search": limits})
    write(folder, "budget.yaml", {**GENEROUS, "slowdown_against_best_fraction": {"max": 1e6}})
    assert "SEARCH CUT" in check(folder, code=5)


def test_several_formats_at_once(folder: Path) -> None:
    files = ["--format", "junit", "--output", "report.xml", "--format", "sarif", "--output", "report.sarif"]
    text = check(folder, *files, "--format", "markdown", "--output", "-", "--format", "json", code=0)
    assert text.startswith("### meshplan check: PASSED")
    assert json.loads(text[text.index("\n{") :])["status"] == "passed"
    assert (folder / "report.xml").read_text().startswith("<?xml")
    assert json.loads((folder / "report.sarif").read_text())["version"] == "2.1.0"


def test_the_document_and_the_budget_agree_with_their_schemas(folder: Path) -> None:
    check(folder, "--write-baseline", "plan.json", code=0)
    document = json.loads(check(folder, "--baseline", "plan.json", "--pin", "--format", "json", code=0))
    schemas = {name: json.loads(meshplan(folder, "schema", name).stdout) for name in ("budget", "check")}
    jsonschema.validate(document, schemas["check"])
    jsonschema.validate(GENEROUS, schemas["budget"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"step_tim_s": {"max": 1}}, schemas["budget"])


@pytest.mark.parametrize("answer", [["estimate", "job.yaml", "--json"], ["search", "job.yaml", "--json"]])
def test_other_answers_serve_as_baselines(folder: Path, answer: list[str]) -> None:
    (folder / "plan.json").write_text(meshplan(folder, *answer).stdout)
    write(folder, "budget.yaml", {"regression": {"step_time_s": {"max_fraction": 10}}})
    text = check(folder, "--baseline", "plan.json", "--pin", code=0)
    assert "against the baseline" in text


def test_a_slower_job_breaks_the_baseline_without_a_budget(folder: Path) -> None:
    assert meshplan(folder, "check", "job.yaml", "--write-baseline", "plan.json").returncode == 0
    write(folder, "job.yaml", {**JOB, "strategy": {**JOB["strategy"], "recompute": "full"}})
    run = meshplan(folder, "check", "job.yaml", "--baseline", "plan.json")
    assert run.returncode == 3
    assert "strategy.recompute.granularity" in run.stdout


def documented() -> list[str]:
    page = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)).replace("\\\n", " ")
    return [" ".join(line.split()) for line in blocks.splitlines() if line.startswith("meshplan check")]


def test_every_documented_command_passes_on_the_example(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/ci", tmp_path, dirs_exist_ok=True)
    commands = documented()
    assert len(commands) >= 4
    for line in commands:
        words = line.partition(" #")[0].split()[1:]
        run = meshplan(tmp_path, *words)
        assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"

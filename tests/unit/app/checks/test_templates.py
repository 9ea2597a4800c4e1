"""What we offer to CI systems is what their own tools accept, and runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import ROOT, command

EXAMPLE = ROOT / "examples/ci"
BIN = Path(sys.executable).parent
WORKFLOW = "examples/ci/.github/workflows/capacity.yml"


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", "action.yml"),
        ("github-workflows", WORKFLOW),
        ("gitlab-ci", "ci-templates/gitlab.yml"),
        ("gitlab-ci", "examples/ci/.gitlab-ci.yml"),
    ],
)
def test_schemas(schema: str, file: str) -> None:
    linted = run(BIN / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", file)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_pre_commit_files() -> None:
    for kind, file in (("manifest", ".pre-commit-hooks.yaml"), ("config", "examples/ci/.pre-commit-config.yaml")):
        linted = run(BIN / "pre-commit", f"validate-{kind}", file)
        assert linted.returncode == 0, linted.stdout + linted.stderr


def test_zizmor_finds_nothing_even_when_pedantic() -> None:
    linted = run(BIN / "zizmor", "--offline", "--no-progress", "--persona", "pedantic", "action.yml", WORKFLOW)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout that holds the worked example, and a `meshplan` on the path of its runner."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    launcher = tmp_path / "meshplan/bin/meshplan"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m meshplan "$@"\n')
    launcher.chmod(0o755)
    made = command("check", "job.yaml", "--write-baseline", "baseline.json", folder=folder)
    assert made.returncode == 0, made.stderr
    return folder


def loaded(file: str) -> Any:
    return yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))


def action(project: Path, **inputs: str) -> tuple[int, str, str]:
    """Exit code, outputs and summary of the action's second step, as a runner starts it."""
    step = loaded("action.yml")["runs"]["steps"][1]
    given = {name: spec.get("default", "") for name, spec in loaded("action.yml")["inputs"].items()} | inputs
    expressions = {"${{ inputs." + name + " }}": value for name, value in given.items()}
    assert set(step["env"].values()) == set(expressions)
    assert "${{" not in step["run"]
    outputs, summary = project.parent / "outputs", project.parent / "summary"
    variables = {name: expressions[expression] for name, expression in step["env"].items()}
    runner = {"RUNNER_TEMP": str(project.parent), "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
    done = run("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"], cwd=project, **variables, **runner)
    return done.returncode, outputs.read_text(), summary.read_text() if summary.exists() else done.stderr


def test_the_action_checks_the_example(project: Path) -> None:
    code, outputs, summary = action(project, job="job.yaml", budget="budget.yaml", baseline="baseline.json", pin="true")
    assert (code, outputs) == (0, "status=passed\n"), summary
    assert summary.startswith("### meshplan check: PASSED: ")
    assert (project / "meshplan.sarif").exists()
    assert (project / "meshplan.xml").exists()


def test_the_action_fails_where_a_budget_is_broken_and_names_run_nothing(project: Path) -> None:
    (project / "my budget; touch pwned.yaml").write_text("step_time_s: {max: 1}\n")
    code, outputs, summary = action(project, job="job.yaml", budget="my budget; touch pwned.yaml")
    assert (code, outputs) == (3, "status=broken\n")
    assert "BUDGET BROKEN" in summary
    assert not (project / "pwned.yaml").exists()


def test_the_action_holds_several_jobs_against_the_target_branch_and_annotates(project: Path) -> None:
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        run("git", *words, cwd=project)
    text = (project / "job.yaml").read_text()
    (project / "job.yaml").write_text(text.replace("mc2: true", "mc2: false"))
    (project / "new job.yaml").write_text(text)
    given = {"job": "job.yaml\nnew job.yaml\n", "baseline-ref": "main", "comment-token": "secret"}
    code, outputs, summary = action(project, budget="budget.yaml", **given)
    assert (code, outputs) == (3, "status=broken\n")
    assert "1 of 2 jobs passed" in summary
    assert "- Changed in the job: strategy.features" in summary.replace("\\", "")


def test_the_action_says_what_it_could_not_use(project: Path) -> None:
    code, outputs, message = action(project, job="absent.yaml", budget="budget.yaml", baseline="baseline.json")
    assert (code, outputs) == (2, "status=\n")
    assert "absent.yaml" in message


def test_a_history_that_nobody_keeps_fails_no_pipeline(project: Path) -> None:
    away = "http://127.0.0.1:9"  # nobody listens there
    code, outputs, summary = action(project, job="job.yaml", budget="budget.yaml", baseline="baseline.json", server=away)
    assert (code, outputs) == (0, "status=passed\n"), summary
    template, example = loaded("ci-templates/gitlab.yml")[".meshplan-check"], loaded("examples/ci/.gitlab-ci.yml")["capacity"]
    variables = {**template["variables"], **example["variables"], "MESHPLAN_SERVER": away, "MESHPLAN_VISIBILITY": "link"}
    path = f"{project.parent}/meshplan/bin:{os.environ['PATH']}"
    done = run("sh", "-e", "-c", "\n".join(template["script"]), cwd=project, PATH=path, **variables)
    assert done.returncode == 0, done.stderr
    assert f"--server: job.yaml is not kept: no server answers at {away}" in done.stderr


def test_the_gitlab_job_checks_the_example(project: Path) -> None:
    template, example = loaded("ci-templates/gitlab.yml")[".meshplan-check"], loaded("examples/ci/.gitlab-ci.yml")["capacity"]
    assert set(example["variables"]) <= set(template["variables"])
    variables = {**template["variables"], **example["variables"]}
    path = f"{project.parent}/meshplan/bin:{os.environ['PATH']}"
    done = run("sh", "-e", "-c", "\n".join(template["script"]), cwd=project, PATH=path, **variables)
    assert done.returncode == 0, done.stderr
    assert "PASSED" in done.stdout
    assert all((project / file).exists() for file in template["artifacts"]["paths"])
    (project / "loose.yaml").write_text("step_time_s: {max: 100}\n")
    variables |= {"MESHPLAN_JOB": "job.yaml\nabsent job.yaml", "MESHPLAN_BASELINE": "", "MESHPLAN_PIN": "false"}
    variables |= {"MESHPLAN_BUDGET": "loose.yaml"}
    several = run("sh", "-e", "-c", "\n".join(template["script"]), cwd=project, PATH=path, **variables)
    assert several.returncode == 2
    assert "absent job.yaml" in several.stderr


def test_the_hook_checks_the_example(project: Path) -> None:
    hook = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]
    used = loaded("examples/ci/.pre-commit-config.yaml")["repos"][0]["hooks"][0]
    assert used["id"] == hook["id"]
    path = f"{project.parent}/meshplan/bin:{os.environ['PATH']}"
    done = run(*hook["entry"].split(), *used["args"], cwd=project, PATH=path)
    assert done.returncode == 0, done.stderr

"""The baseline that the target branch holds, in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.checks import target_branch
from app.checks.target_branch import job_at
from documents.errors import InputError
from tests.commands import command

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "strategy": {"tp": 8, "micro_batch_size": 1},
}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", folder, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose branch ``main`` holds a job in a folder, with a file that the job names beside it."""
    folder = tmp_path / "repository"
    (folder / "jobs").mkdir(parents=True)
    (folder / "hardware").mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "hardware" / "ours.yaml").write_text("name: ours\n")
    write(folder, {**JOB, "cluster": {"hardware": "../hardware/ours.yaml", "num_devices": 8}})
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def write(folder: Path, job: dict[str, Any], name: str = "job.yaml") -> Path:
    path = folder / "jobs" / name
    path.write_text(yaml.safe_dump(job))
    return path


def test_a_job_comes_with_the_files_that_it_names_there(repository: Path) -> None:
    path = write(repository, JOB)
    (repository / "hardware" / "ours.yaml").write_text("name: changed\n")
    with job_at("main", path) as earlier:
        assert earlier is not None
        assert yaml.safe_load(earlier.path.read_text())["cluster"]["hardware"] == "../hardware/ours.yaml"
        assert (earlier.path.parent / "../hardware/ours.yaml").read_text() == "name: ours\n"
        folder = earlier.path.parent
    assert not folder.exists()
    with job_at("main", write(repository, JOB, "new.yaml")) as earlier:
        assert earlier is None


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_renamed_job_is_found_where_it_was(repository: Path, is_committed: bool) -> None:
    (repository / "large").mkdir()
    git(repository, "mv", "jobs/job.yaml", "large/of 7b.yaml")
    path = repository / "large" / "of 7b.yaml"
    path.write_text(path.read_text().replace("tp: 8", "tp: 4"))
    git(repository, "add", ".")
    if is_committed:
        git(repository, "checkout", "--quiet", "-b", "renames")
        git(repository, "commit", "--quiet", "-m", "two")
    with job_at("main", path) as earlier:
        assert earlier is not None
        assert earlier.former_name == "jobs/job.yaml"
        assert yaml.safe_load(earlier.path.read_text())["strategy"]["tp"] == 8
        assert (earlier.path.parent / "../hardware/ours.yaml").is_file()  # beside the job as it lay there
    git(repository, "rm", "--quiet", "--cached", "large/of 7b.yaml")
    with job_at("main", path) as earlier:  # git knows of no new name
        assert earlier is None


def test_a_copy_of_a_job_that_stays_has_no_baseline(repository: Path) -> None:
    path = write(repository, yaml.safe_load((repository / "jobs" / "job.yaml").read_text()), "copy.yaml")
    git(repository, "add", ".")
    with job_at("main", path) as earlier:
        assert earlier is None


def test_nothing_outside_the_repository_is_read(repository: Path) -> None:
    (repository.parent / "secret.yaml").write_text("x: 1\n")
    (repository / "jobs" / "link.yaml").symlink_to(repository.parent / "secret.yaml")
    path = write(repository, {**JOB, "model": "../../secret.yaml", "note": "/etc/hosts.txt", "link": "link.yaml"})
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "two")
    with job_at("main", path) as earlier:
        assert earlier is not None
        held = [found for found in earlier.path.parents[1].rglob("*") if found.is_file() or found.is_symlink()]
    assert [found.name for found in held] == ["job.yaml"]


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        ("--output=x", "is not allowed"),
        ("", "is not allowed"),
        ("a\nb", "is not allowed"),
        ("other", "git fetch --depth 1 origin"),
    ],
)
def test_what_is_no_commit_is_one_sentence(repository: Path, reference: str, part: str) -> None:
    with pytest.raises(InputError, match=part), job_at(reference, repository / "jobs" / "job.yaml"):
        pass


def test_a_folder_without_git_and_a_file_that_is_too_large_are_one_sentence(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text("model: x\n")
    with pytest.raises(InputError, match="git says: "), job_at("main", tmp_path / "job.yaml"):
        pass
    monkeypatch.setattr(target_branch, "DOCUMENT_BYTES", 10)
    with pytest.raises(InputError, match="is larger there than the 10 bytes"), job_at("main", repository / "jobs" / "job.yaml"):
        pass


def test_a_rename_does_not_pass_a_worse_job(repository: Path) -> None:
    write(repository, JOB)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "two")
    git(repository, "mv", "jobs/job.yaml", "jobs/renamed.yaml")
    write(repository, {**JOB, "strategy": {"tp": 4, "micro_batch_size": 1}}, "renamed.yaml")
    run = command("check", "jobs/renamed.yaml", "--baseline-ref", "main", "--write-baseline", "x.json", folder=repository)
    assert "jobs/renamed.yaml is jobs/job.yaml in main, renamed since" in " ".join(run.stderr.split())
    assert "strategy.tp: 8 -> 4" in run.stdout


def test_a_merge_is_held_against_its_target_branch(repository: Path) -> None:
    write(repository, JOB)
    write(repository, {**JOB, "strategy": "no mapping"}, "mended.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "two")
    write(repository, {**JOB, "strategy": {"tp": 4, "micro_batch_size": 1}})
    for name in ("mended.yaml", "new.yaml"):
        write(repository, JOB, name)
    (repository / "budget.yaml").write_text("step_time_s: {max: 60}\nregression: {peak_memory_bytes: {max_fraction: 0.01}}\n")
    jobs = ["jobs/job.yaml", "jobs/mended.yaml", "jobs/new.yaml"]
    options = ("--budget", "budget.yaml", "--baseline-ref", "main", "--format", "markdown")
    run = command("check", *jobs, *options, folder=repository)
    assert run.returncode == 3
    assert "### meshplan check: BUDGET BROKEN: 2 of 3 jobs passed" in run.stdout
    assert "main:jobs/mended.yaml cannot be priced (strategy" in run.stderr
    assert "main has no jobs/new.yaml" in run.stderr
    moved = [line for line in run.stdout.splitlines() if line.startswith("| memory: ")]
    assert any("weights" in line and "+" in line for line in moved)  # twice as many a device
    assert "strategy.tp: 8 -\\> 4" in run.stdout
    assert "main:jobs/job.yaml" not in run.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["jobs/job.yaml", "--baseline-ref", "main", "--baseline", "x.json"], "compared with one of them"),
        (["llama-2-7b", "--baseline-ref", "main"], "is no file"),
        (["jobs/job.yaml", "llama-2-7b", "--baseline", "x.json"], "the file of one job, and 2 are given"),
        (["llama-2-7b", "llama-2-7b", "--baseline-ref", "main"], "is given twice"),
        (
            ["jobs/job.yaml", "--baseline-ref", "main", "--comment", "gitlub"],
            "--comment: 'gitlub' is no known service; did you mean 'gitlab'?",
        ),
    ],
)
def test_usage_is_one_sentence(repository: Path, words: list[str], part: str) -> None:
    run = command("check", *words, folder=repository)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert part in run.stderr

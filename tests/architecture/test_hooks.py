"""The hooks that a contributor installs use the tools of .venv and refuse what `make lint` would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / ".pre-commit-config.yaml"
PRE_COMMIT = Path(sys.executable).parent / "pre-commit"
HOOKS = {hook["id"]: hook for repo in yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["repos"] for hook in repo["hooks"]}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our hooks, our settings and our tools, and nothing else."""
    for name in (CONFIG.name, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".gitignore").write_text(".venv\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def run_hooks(repository: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "PRE_COMMIT_HOME": str(repository / ".git/pre-commit")}
    subprocess.run(["git", "add", "."], cwd=repository, env=kept, check=True)
    command = [PRE_COMMIT, "run", "--all-files"]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_configuration_is_one_that_pre_commit_takes() -> None:
    checked = subprocess.run([PRE_COMMIT, "validate-config", CONFIG], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_hooks_are_the_commands_of_make_lint() -> None:
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    tools = {line.split()[0].removeprefix("$(BIN)/") for line in lint.splitlines()[1:]}
    of_code = [hook for hook in HOOKS.values() if hook.get("stages") != ["commit-msg"]]  # a message is no file that lint sees
    assert {Path(hook["entry"].split()[0]).name for hook in of_code} == tools
    assert len(of_code) < len(HOOKS)
    assert all(hook["entry"].startswith(".venv/bin/") for hook in HOOKS.values())


def test_a_tidy_file_passes(repository: Path) -> None:
    (repository / "tidy.py").write_text('"""Tidy."""\n', encoding="utf-8")
    done = run_hooks(repository)
    assert done.returncode == 0, done.stdout + done.stderr


def test_untidy_files_are_put_in_order_or_refused(repository: Path) -> None:
    (repository / "untidy.py").write_text('"""Untidy."""\n\nx   =  [ 1,2 ]\n', encoding="utf-8")
    (repository / "wrong.py").write_text('"""Wrong."""\n\nimport os\n', encoding="utf-8")
    done = run_hooks(repository)
    assert done.returncode == 1
    assert (repository / "untidy.py").read_text(encoding="utf-8") == '"""Untidy."""\n\nx = [1, 2]\n'
    assert "F401" in done.stdout

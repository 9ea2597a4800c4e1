"""The hook that keeps the dashboard's bundle in commits of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "scripts/checks/built_files.py"


@pytest.mark.parametrize(
    ("staged", "code"),
    [
        (("app/static/dashboard/assets/a.js", "app/static/dashboard/index.html"), 0),
        (("dashboard/src/a.ts", "app/static/logo.svg"), 0),
        (("app/static/dashboard/assets/a.js", "dashboard/src/a.ts"), 1),
        (("app/static/dashboard/assets/a.js", "README.md"), 1),
    ],
)
def test_built_files_are_refused_beside_others(staged: tuple[str, ...], code: int, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", tmp_path], env=environment, check=True)
    for name in staged:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    subprocess.run(["git", "add", "."], cwd=tmp_path, env=environment, check=True)
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stdout)) == (code, bool(code)), done.stderr

"""The newest Python that is supported, where this machine has it, installs meshplan and gives the answers of this one."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PREFIX = "Programming Language :: Python :: "
SUPPORTED = [c.removeprefix(PREFIX) for c in PROJECT["classifiers"] if re.fullmatch(rf"{PREFIX}3\.\d+", c)]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
JOB = ("llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8", "--json")


def interpreter(version: str) -> str | None:
    """A Python of that version that starts, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    ask = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, candidates):
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return path
    return None


def answers(python: str | Path, folder: Path) -> dict[str, Any]:
    """An estimate and a search as that Python gives them, without how long it took."""
    found = {}
    for name, options in (("estimate", ("--tp", "8")), ("search", ("--top", "3"))):
        command = [python, "-m", "meshplan", name, *JOB, *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
    found["search"].pop("timing")
    return found


def test_the_readme_and_the_package_say_the_same_versions() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Python {SUPPORTED[0]} to {SUPPORTED[-1]}" in readme
    assert PROJECT["requires-python"] == f">={SUPPORTED[0]}"


@pytest.mark.slow
@pytest.mark.parametrize("version", [version for version in SUPPORTED[-1:] if version != RUNNING])  # `make check-python`: any
def test_another_python_gives_the_same_answers(version: str, tmp_path: Path) -> None:
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} here; with one, `make check-python PYTHON=...` runs all unit tests")
    subprocess.run([base, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv/bin/python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    ask = subprocess.run([*pip, "download", "--no-deps", "--dest", tmp_path, "idna"], capture_output=True, text=True, check=False)
    if ask.returncode:
        pytest.skip(f"no packages can be had here: {ask.stderr.strip().splitlines()[-1:]}")
    install = [*pip, "install", "--constraint", ROOT / "constraints.txt", ROOT]
    done = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert answers(python, tmp_path) == answers(sys.executable, ROOT)

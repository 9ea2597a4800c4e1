"""The command line as a user runs it: in this process, or in one of its own where starting it is what a test is about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from app.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
EXECUTOR = "MESHPLAN_EXECUTOR"
MESHPLAN = [sys.executable, "-m", "meshplan"]
NOT_TAKEN_OVER = {"COLUMNS", "LANG", "LC_ALL", "LC_MESSAGES", "MESHPLAN_DEBUG", EXECUTOR, "MESHPLAN_LANGUAGE", "NO_COLOR"}


def command(*arguments: str | Path, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """What ``meshplan`` answers: the same function as the process calls, without the second that a start takes."""
    words = list(map(str, arguments))
    written = [TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        for name in NOT_TAKEN_OVER - {EXECUTOR}:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        with redirect_stdout(written[0]), redirect_stderr(written[1]):
            code = main(words)
    out, err = (stream.buffer.getvalue().decode() for stream in written)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code, out, err)


def process(*arguments: str | Path, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in a new process."""
    return subprocess.run(
        [*MESHPLAN, *map(str, arguments)],
        cwd=folder,
        env=_surroundings(environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def measured(*arguments: str | Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], dict[str, float]]:
    """The same, with the CPU time [s] and the largest memory [KiB] of the process and those that it started.

    A process counts as large as the one that it is made from. So a small one makes it, which no test has filled.
    """
    run = subprocess.run(
        [sys.executable, "-c", _MEASURES, *MESHPLAN, *map(str, arguments)],
        cwd=ROOT, env=_surroundings(environment), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    *_, used = run.stderr.splitlines()
    return run, json.loads(used)


_MEASURES = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "memory_kib": used.ru_maxrss}), file=sys.stderr)
sys.exit(code)
"""


def _surroundings(environment: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_TAKEN_OVER}
    return {**kept, "PYTHONPATH": str(ROOT), **environment}

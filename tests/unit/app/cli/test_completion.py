"""What a shell is told to complete, and by the shells that are here: commands, flags, names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def completed(*words: str) -> list[str]:
    """What the script that ``--show-completion`` writes for Bash is answered where the last word is being typed."""
    line = ["meshplan", *words]
    asked = {
        "_MESHPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(words)),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'meshplan'; from app.cli.main import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["se"], ["search", "sequences", "serve", "serving"]),
        (["estimate", "llama-2-7b", "--hard"], ["--hardware"]),
        (["estimate", "qwen3-3"], ["qwen3-30b-a3b", "qwen3-32b"]),
        (["search", "llama-2-7b", "--hardware", "h20"], ["h20-sxm-96gb", "h200-sxm-141gb"]),
        (["search", "llama-2-7b", "--target", "mind"], ["mindspeed-llm", "mindspeed-llm-fsdp2", "mindformers"]),
        (
            ["hardware", "show", "atlas-9"],
            ["atlas-900-a2-podc", "atlas-900-a3-superpod", "atlas-950-pod-1024", "atlas-950-superpod"],
        ),
        (["models", "show", "glm4"], ["glm4-9b"]),
        (["estimate", "./jobs/"], []),  # a path, which the shell completes
    ],
)
def test_names_are_completed(words: list[str], found: list[str]) -> None:
    assert sorted(completed(*words)) == sorted(found)


def test_bash_takes_the_script_that_the_command_shows(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "meshplan").write_text(
        f"#!/bin/sh\nexec {sys.executable} -c \"import sys; sys.argv[0] = 'meshplan'; from app.cli.main import main; "
        'sys.exit(main())" "$@"\n'
    )
    (tmp_path / "meshplan").chmod(0o755)
    script = """
eval "$(meshplan --show-completion)"
COMP_WORDS=(meshplan estimate llama-2-7b --hardware v1) COMP_CWORD=4
$(complete -p meshplan | sed 's/.*-F \\([^ ]*\\).*/\\1/') meshplan
echo "${COMPREPLY[@]}"
"""
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["v100-sxm-32gb"], done.stderr

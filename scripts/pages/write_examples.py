"""Writes what commands print into the pages that show it, in each language."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.language.choice import Language, said
from frameworks.launch_text import AS_IT_IS

SEARCH = ("search", "deepseek-v3", "--hardware", "atlas-800t-a2", "--devices", "2048", "--save-dir", "plans")
SCRIPT = ROOT / "tests" / "fixtures" / "scripts" / "60-mixtral-8x7b-megatron.sh"
TUNE = ("tune", str(SCRIPT), "--hardware", "h100-sxm-80gb")
JOB = str(ROOT / "examples" / "llama-2-13b.yaml")
TRACE = ("compare-trace", str(ROOT / "tests" / "fixtures" / "traces" / "step_trace_time.csv"), "--job", JOB, "--step", "11")
SUGGEST = ("calibrate", "--suggest", JOB)
HYBRID = (
    *"search llama-3.1-8b --hardware gb200-nvl72 --devices 576 --global-batch-size 576 --seq-length 8192".split(),
    *"--target torchtitan --tp 1 --pp 1 --cp 1 --micro-batch-size 1".split(),
)
LAUNCH_FILE = Path("plans") / "plan-1.mindspeed-llm.sh"  # that the search writes
BLOCK = re.compile(r"(<!-- example: [^\n]*-->\n```text\n).*?(```\n<!-- /example -->)", re.DOTALL)

# By language: each page with an example, and the command that prints it.
PAGES: Mapping[Language, Mapping[str, tuple[str, ...]]] = {
    "en": {
        "README.md": SEARCH,
        "docs/example.md": (*SEARCH, "--details"),
        "docs/tune.md": TUNE,
        "docs/compare-trace.md": TRACE,
        "docs/launch.md": HYBRID,
        "docs/calibration.md": SUGGEST,
    },
    "zh": {
        "README.zh.md": SEARCH,
        "docs/zh/example.md": (*SEARCH, "--details"),
        "docs/zh/tune.md": TUNE,
        "docs/zh/compare-trace.md": TRACE,
        "docs/zh/launch.md": HYBRID,
    },
}


def output(language: Language, *command: str) -> str:
    """Output of the command in the language, without blanks at the ends of lines."""
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "meshplan", *command],
            cwd=folder,
            env={**os.environ, "COLUMNS": "110", "MESHPLAN_LANGUAGE": language, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        written = Path(folder) / LAUNCH_FILE
        if "--save-dir" in command and said(AS_IT_IS, language) not in written.read_text(encoding="utf-8"):
            raise SystemExit("the README's first command ends in a plan that does not start; choose another one")
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())


def main() -> None:
    for language, pages in PAGES.items():
        for name, command in pages.items():
            path, shown = ROOT / name, output(language, *command)
            held = path.read_text(encoding="utf-8")
            path.write_text(BLOCK.sub(lambda found, shown=shown: found[1] + shown + found[2], held), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes what the README's first search prints into the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("search", "deepseek-v3", "--hardware", "atlas-800t-a2", "--devices", "2048", "--save-dir", "plans")
RUNS_AS_IT_IS = "The framework runs this plan as it is."
BLOCK = re.compile(r"(<!-- example: [^\n]*-->\n```text\n).*?(```\n<!-- /example -->)", re.DOTALL)


def main() -> None:
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "meshplan", *COMMAND],
            cwd=folder,
            env={**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        if RUNS_AS_IT_IS not in (Path(folder) / "plans" / "plan-1.mindspeed-llm.sh").read_text(encoding="utf-8"):
            raise SystemExit("the README's first command ends in a plan that does not start; choose another one")
    text = "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())
    readme = ROOT / "README.md"
    readme.write_text(BLOCK.sub(lambda found: found[1] + text + found[2], readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes what the README's first search prints into the README, in each of its languages."""

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


READMES = {"en": "README.md", "zh": "README.zh.md"}


def printed(language: str) -> str:
    """What the search prints in the language, without blanks at the ends of lines."""
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "meshplan", *COMMAND],
            cwd=folder,
            env={**os.environ, "COLUMNS": "110", "MESHPLAN_LANGUAGE": language, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        if RUNS_AS_IT_IS not in (Path(folder) / "plans" / "plan-1.mindspeed-llm.sh").read_text(encoding="utf-8"):
            raise SystemExit("the README's first command ends in a plan that does not start; choose another one")
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())


def main() -> None:
    for language, name in READMES.items():
        readme, text = ROOT / name, printed(language)
        held = readme.read_text(encoding="utf-8")
        readme.write_text(BLOCK.sub(lambda found, text=text: found[1] + text + found[2], held), encoding="utf-8")


if __name__ == "__main__":
    main()

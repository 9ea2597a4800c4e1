"""Writes the output of the README's first search into docs/example.md, and its beginning into the README, in each language."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("search", "deepseek-v3", "--hardware", "atlas-800t-a2", "--devices", "2048", "--save-dir", "plans")
RUNS_AS_IT_IS = "The framework runs this plan as it is."
BLOCK = re.compile(r"(<!-- example: [^\n]*-->\n```text\n).*?(```\n<!-- /example -->)", re.DOTALL)
NUM_PLANS_IN_README = 3

# By language: the README, which shows the beginning, and the page with the whole output.
PAGES = {"en": ("README.md", "docs/example.md"), "zh": ("README.zh.md", "docs/zh/example.md")}


def output(language: str) -> str:
    """Output of the search in the language, without blanks at the ends of lines."""
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


def beginning(text: str) -> str:
    """The output up to the first rows of the table of plans."""
    shown, cut, _ = text.partition(f"\n {NUM_PLANS_IN_README + 1}  ")
    if not cut:
        raise SystemExit(f"the output lists no plan {NUM_PLANS_IN_README + 1}")
    return f"{shown}\n...\n"


def main() -> None:
    for language, (readme, page) in PAGES.items():
        text = output(language)
        for name, shown in ((readme, beginning(text)), (page, text)):
            path = ROOT / name
            held = path.read_text(encoding="utf-8")
            path.write_text(BLOCK.sub(lambda found, shown=shown: found[1] + shown + found[2], held), encoding="utf-8")


if __name__ == "__main__":
    main()

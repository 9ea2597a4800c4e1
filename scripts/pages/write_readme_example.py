"""Writes what the README's first search prints into the README, and all of it into docs/example.md, in each language."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.language.choice import Language, said
from frameworks.launch_text import AS_IT_IS

COMMAND = ("search", "deepseek-v3", "--hardware", "atlas-800t-a2", "--devices", "2048", "--save-dir", "plans")
BLOCK = re.compile(r"(<!-- example: [^\n]*-->\n```text\n).*?(```\n<!-- /example -->)", re.DOTALL)

# By language: the README, which shows what is printed, and the page with the details.
PAGES: dict[Language, tuple[str, str]] = {"en": ("README.md", "docs/example.md"), "zh": ("README.zh.md", "docs/zh/example.md")}


def output(language: Language, *more: str) -> str:
    """Output of the search in the language with more arguments, without blanks at the ends of lines."""
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "meshplan", *COMMAND, *more],
            cwd=folder,
            env={**os.environ, "COLUMNS": "110", "MESHPLAN_LANGUAGE": language, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        if said(AS_IT_IS, language) not in (Path(folder) / "plans" / "plan-1.mindspeed-llm.sh").read_text(encoding="utf-8"):
            raise SystemExit("the README's first command ends in a plan that does not start; choose another one")
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())


def main() -> None:
    for language, (readme, page) in PAGES.items():
        for name, shown in ((readme, output(language)), (page, output(language, "--details"))):
            path = ROOT / name
            held = path.read_text(encoding="utf-8")
            path.write_text(BLOCK.sub(lambda found, shown=shown: found[1] + shown + found[2], held), encoding="utf-8")


if __name__ == "__main__":
    main()

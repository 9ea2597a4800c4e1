"""Writes what the README's first search prints into the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("search", "pangu-ultra-moe-718b", "--hardware", "atlas-800t-a2", "--devices", "6144")
BLOCK = re.compile(r"(<!-- example: [^\n]*-->\n```text\n).*?(```\n<!-- /example -->)", re.DOTALL)


def main() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "meshplan", *COMMAND],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "110"},
        capture_output=True,
        text=True,
        check=True,
    )
    text = "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())
    readme = ROOT / "README.md"
    readme.write_text(BLOCK.sub(lambda found: found[1] + text + found[2], readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

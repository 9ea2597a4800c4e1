"""Writes the table of constants in docs/model.md from cost_models/constants.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cost_models.constants import CONSTANTS

PAGE = ROOT / "docs/model.md"
START, END = "<!-- constants -->\n", "<!-- /constants -->"


def table() -> str:
    lines = [
        "| constant | means | unit | Ascend | GPU | bounds | spread | basis | source |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{c.name}` | {c.meaning} | {c.unit} | {c.ascend:g} | {c.gpu:g} | {c.low:g} to {c.high:g} | {c.log_spread:g} "
        f"| {c.basis} | {c.source} |"
        for c in CONSTANTS
    ]
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    before, rest = page.split(START)
    return before + START + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

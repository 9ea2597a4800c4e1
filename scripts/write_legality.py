"""Writes docs/legality.md, and the dashboard's English words for the rules, from the rules themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from frameworks.legality import RULES, TARGETS
from frameworks.target import MINDFORMERS

HEAD = """# Which strategies can run

<!-- Written by scripts/write_legality.py (`make docs`); edit the rules in search/legality/, not this page. -->

A rule is one named reason for which a strategy cannot run. Rules of `any` are physics and bind every target; a framework adds
its own. They are checked in the order of the table, and an illegal strategy is charged to the first rule that it breaks, so that
the counts of a search add up. An option without effect breaks no rule: a context-parallel algorithm at cp 1, expert features on a
dense model, `overlap_param_gather` without replicas.

`software.target` of a job chooses the rules: {targets}.
Those of MindFormers cover {mindformers}. Sources are keys of [references.md](references.md).

| # | rule | target | a strategy must | source |
|---|---|---|---|---|
"""


def document() -> str:
    """The page."""
    head = HEAD.format(
        targets=", ".join(f"`{target.label}`" for target in TARGETS),
        mindformers=", ".join((*MINDFORMERS.other_releases[:3], MINDFORMERS.release)),
    )
    rows = [
        f"| {number} | `{rule.name}` | {', '.join(sorted(rule.targets))} | {rule.requirement} | {rule.source[1:-1]} |"
        for number, rule in enumerate(RULES, start=1)
    ]
    return head + "\n".join(rows) + "\n"


def words() -> str:
    """What the dashboard shows for each rule; zh/rules.json says the same in Chinese."""
    return json.dumps({rule.name: rule.requirement for rule in RULES}, indent=2) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "legality.md").write_text(document(), encoding="utf-8")
    (ROOT / "dashboard" / "src" / "locales" / "en" / "rules.json").write_text(words(), encoding="utf-8")

"""Writes docs/legality.md, and the dashboard's words for the rules in both languages, from the rules themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.language.choice import LANGUAGES, Language, said
from cost_models.shapes.switches import Feature
from frameworks.legality import RULES
from frameworks.registry import FRAMEWORKS, TARGETS
from frameworks.table import Table

HEAD = """# Which strategies can run

<!-- Written by scripts/pages/write_legality.py (`make docs`); edit the rules and tables in frameworks/, not this page. -->

A rule is one named reason why a strategy cannot run. Rules of `any` are physics and bind every target; a
framework adds its own. They are checked in the order of the table. An illegal strategy is charged to the
first rule that it breaks, so that the counts of a search add up. An option without effect breaks no rule: a
context-parallel algorithm at cp 1, expert features on a dense model, `overlap_param_gather` without replicas.

`software.target` of a job chooses the rules: {targets}. Spellings of a release, and releases with the same
rules: {others}. Sources are keys of [references.md](references.md).

| # | rule | target | a strategy must | source |
|---|---|---|---|---|
"""


def document() -> str:
    """The page."""
    head = HEAD.format(
        targets=", ".join(f"`{target.label}`" for target in TARGETS),
        others="; ".join(f"{t.label}: {', '.join(t.other_releases)}" for t in TARGETS if t.other_releases),
    )
    targets: dict[tuple[str, str], set[str]] = {}
    sources: dict[tuple[str, str], dict[str, None]] = {}
    for rule in RULES:  # releases of a framework may share the text of a rule
        said = (rule.name, rule.requirement)
        targets.setdefault(said, set()).update(rule.targets)
        sources.setdefault(said, {}).update(dict.fromkeys(rule.source[1:-1].split("; ")))
    rows = [
        f"| {number} | `{name}` | {', '.join(_where(labels))} | {requirement} | {'; '.join(sources[name, requirement])} |"
        for number, ((name, requirement), labels) in enumerate(targets.items(), start=1)
    ]
    return head + "\n".join([*rows, "", *switches()]) + "\n"


def _where(labels: set[str]) -> list[str]:
    """Frameworks with all their releases, then single releases."""
    releases = {target.name: {t.label for t in TARGETS if t.name == target.name} for target in TARGETS}
    whole = {name for name, all_of_it in releases.items() if all_of_it <= labels}
    return sorted(whole) + sorted(label for label in labels if label.partition("@")[0] not in whole)


def switches() -> list[str]:
    """The argument of each framework for each switch."""
    lines = [
        "## Switches as arguments",
        "",
        "The argument is written if the switch is on; with `no` before it, if the switch is off.",
        "`itself`: the framework does it by default.",
        "",
        f"| switch | {' | '.join(framework.target.label for framework in FRAMEWORKS)} |",
        f"|---|{'---|' * len(FRAMEWORKS)}",
    ]
    for feature in Feature:
        cells = [_cell(framework.table, feature) for framework in FRAMEWORKS]
        lines.append(f"| `{str(feature.name).lower()}` | {' | '.join(cells)} |")
    return lines


def _cell(table: Table, feature: Feature) -> str:
    for switch in table.switches:
        if switch.feature is feature:
            value = f" {json.dumps(switch.on[0])}" if switch.on else ""
            return f"{'no ' if switch.negated else ''}`{switch.argument.removeprefix('model.')}`{value}"
    return "itself" if feature in table.implied else ""


def words(language: Language) -> str:
    """The dashboard's text for each rule."""
    first: dict[str, str] = {}
    for rule in RULES:
        first.setdefault(rule.name, said(rule.requirement, language))
    return json.dumps(first, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "legality.md").write_text(document(), encoding="utf-8")
    for language in LANGUAGES:
        (ROOT / "dashboard" / "src" / "locales" / language / "rules.json").write_text(words(language), encoding="utf-8")

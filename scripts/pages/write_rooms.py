"""Writes the map of rooms in CONTRIBUTING.md from the folders, their docstrings and the layers in pyproject.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
START, END = "<!-- rooms: written by scripts/pages/write_rooms.py (`make docs`) -->\n", "<!-- /rooms -->"


def layers_of(settings: str) -> dict[str, list[str]]:
    """Rooms by package, the highest first, as the layer contracts list them."""
    contracts = tomllib.loads(settings)["tool"]["importlinter"]["contracts"]
    whole = [each for each in contracts if each.get("exhaustive") and "." not in each["containers"][0]]
    return {each["containers"][0]: [name.strip() for layer in each["layers"] for name in layer.split("|")] for each in whole}


def sentence_of(source: str) -> str:
    """The first paragraph of a module's docstring, on one line."""
    return " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())


def rooms_of(package: Path) -> list[str]:
    """Folders of a package that hold modules."""
    return sorted(path.parent.name for path in package.glob("*/__init__.py"))


def table() -> str:
    """One table for each package that has rooms."""
    order = layers_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines: list[str] = []
    for package in sorted(path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"):
        rooms = rooms_of(package)
        if not rooms:
            continue
        layers = order.get(package.name, [])
        named = [name for name in layers if name in rooms]
        ordered = ", each knowing only those below it" if layers else ""
        lines += [f"Rooms of `{package.name}/`{ordered}:", "", "| room | holds |", "|---|---|"]
        for room in [*named, *(name for name in rooms if name not in named)]:
            lines.append(f"| `{room}/` | {sentence_of((package / room / '__init__.py').read_text(encoding='utf-8'))} |")
        lines.append("")
    return "\n".join(lines)


def with_map(page: str) -> str:
    """The page with the map as the folders are now."""
    return re.sub(f"(?<={re.escape(START)}).*(?={re.escape(END)})", lambda _: f"\n{table()}\n", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

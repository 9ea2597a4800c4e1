"""Keeps the catalogues of app/language/zh beside the sentences that the sources make.

    python scripts/language/write_sentences.py            # adds what is missing with an empty translation, drops what is gone
    python scripts/language/write_sentences.py --missing  # lists what lacks its translation, with the expressions that fill it

A sentence is a call ``Sentence("{} takes {}", name, share)``: its template names the entry, with {0}, {1}, ... for the values.
Heads of tables, texts of ``--help`` and remarks of shipped data are entries without changes.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.language.translator import FOLDER, FOREIGN, HEADERS, HELPS, key_of
from documents.sentences import numbered
from frameworks.registry import BY_LABEL

CATALOGUES = FOLDER / "zh"
# Data that readers see, and its fields that hold words; names and mere citations are no sentences.
DATA = {"hardware_profiles": ("note", "notes", "title"), "app/catalogue/models/presets": ("source",)}
FLAGS = ROOT / "calibration" / "records" / "known_flags.json"
_IN_DATA = re.compile(r"[a-z]{2,} [a-z]{2,}|\b[a-z]{3,} [a-z\d]|\ba [a-z]{3}")
PACKAGES = ("documents", "hardware_profiles", "cost_models", "frameworks", "calibration", "search", "app")
BY_HAND = (FOREIGN, HEADERS)  # messages of libraries, and words that stand alone
_TEXT = re.compile(r"\b(str|Text|Name)\b")


@dataclass(frozen=True)
class Found:
    """A template as the catalogue names it, the place where it was found first, and the expressions that fill it."""

    key: str
    place: str
    values: tuple[ast.expr, ...] = ()

    @property
    def room(self) -> str:
        """The catalogue that holds it."""
        parts = self.place.split("/")
        return parts[0] if parts[0] != "app" else f"app.{parts[1].partition('.')[0]}"


def help_texts() -> list[str]:
    """Texts that ``--help`` shows for all commands."""
    from typer import main as typer_main

    from app.cli.help import of_library, texts
    from app.cli.main import application

    return sorted({*of_library(), *(text for _, _, text in texts(typer_main.get_command(application)))})


def data_texts() -> list[str]:
    """Remarks of the data that is shipped, each known whole."""
    found = [
        text
        for folder, fields in DATA.items()
        for path in (ROOT / folder).rglob("*.yaml")
        for text in _texts(_yaml(path), fields)
    ]
    found += _texts(json.loads(FLAGS.read_text(encoding="utf-8")), None)
    found = [text for text in found if _IN_DATA.search(text)]
    found += [title for framework in BY_LABEL.values() for title in framework.release.groups]
    return sorted({key_of(" ".join(text.split())) for text in found})


def table_texts() -> list[str]:
    """Texts in the tables of physics, each known whole."""
    from cost_models.shapes.recompute_modules import MODULES
    from cost_models.shapes.switches import SWITCHES
    from cost_models.shapes.tensors import TENSORS

    found = [text for entry in SWITCHES.values() for text in (entry.meaning, entry.why)]
    found += [text for entry in TENSORS.values() for text in (entry.meaning, entry.again)]
    found += [entry.meaning for entry in MODULES.values()]
    return [key_of(text) for text in dict.fromkeys(found) if text]


def rule_texts() -> list[str]:
    """Names of the legality rules as tables show them."""
    from documents.sentences import word
    from frameworks.legality import RULES

    return [*dict.fromkeys(word(rule.name) for rule in RULES)]


def _yaml(path: Path) -> object:
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _texts(held: object, fields: tuple[str, ...] | None, name: str = "") -> Iterator[str]:
    """The texts below ``held`` in fields of these names, without names in all of them."""
    if isinstance(held, dict):
        for key, value in held.items():
            yield from _texts(value, fields, key)
    elif isinstance(held, list):
        for value in held:
            yield from _texts(value, fields, name)
    elif isinstance(held, str) and (fields is None or name in fields):
        yield held


@cache
def sentences() -> dict[str, Found]:
    """Sentences of all sources, by their key."""
    found: dict[str, Found] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            for each in in_source(path.read_text(encoding="utf-8"), place):
                found.setdefault(each.key, each)
    return found


def in_source(source: str, place: str) -> Iterator[Found]:
    """Sentences of a module, in order; ``ValueError`` for a template that is not a text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield from _of_call(node, place)
        elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Section") for base in node.bases):
            yield from (each for field in node.body if isinstance(field, ast.AnnAssign) for each in _descriptions(field, place))


def _of_call(node: ast.Call, place: str) -> Iterator[Found]:
    name = ast.unparse(node.func)
    if name == "Sentence" and place != "documents/sentences.py":
        if not (isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)):
            raise ValueError(f"{place}:{node.lineno}: the template is no text: {ast.unparse(node)}")
        template, _ = numbered(node.args[0].value)
        if re.search(r"[A-Za-z]", template):
            yield Found(key_of(template), f"{place}:{node.lineno}", tuple(node.args[1:]))
    elif name.endswith("plain_table"):
        for head in node.args:
            if isinstance(head, ast.Constant) and isinstance(head.value, str) and re.search(r"[a-z]{2}", head.value):
                yield Found(key_of(head.value), f"{place}:{node.lineno}")


def _descriptions(field: ast.AnnAssign, place: str) -> Iterator[Found]:
    """Descriptions of a job's text fields; refusals of other values contain them."""
    for node in ast.walk(field) if _TEXT.search(ast.unparse(field.annotation)) else ():
        if isinstance(node, ast.keyword) and node.arg == "description" and isinstance(node.value, ast.Constant):
            yield Found(key_of(f"the {node.value.value}"), f"{place}:{node.value.lineno}")


def may_lack(value: ast.expr) -> bool:
    """Whether a translation may leave it out: a plural or a verb that Chinese does without."""
    choice = value.values[0] if isinstance(value, ast.BoolOp) else value
    if isinstance(choice, ast.BinOp) and isinstance(choice.left, ast.Constant):
        return True
    return isinstance(choice, ast.IfExp) and all(isinstance(each, ast.Constant) for each in (choice.body, choice.orelse))


def catalogues() -> dict[str, dict[str, str]]:
    """Templates with their translations, by room."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CATALOGUES.glob("*.json"))}


def wanted() -> dict[str, dict[str, str]]:
    """The catalogues as the sources want them."""
    known = catalogues()
    translated = {text: chinese for room in known.values() for text, chinese in room.items()}
    rooms = {room: dict(known.get(room, {})) for room in BY_HAND}
    rooms[HELPS] = {text: known.get(HELPS, {}).get(text, "") for text in help_texts()}
    rooms["data"] = {text: known.get("data", {}).get(text, "") for text in data_texts()}
    rooms["cost_models"] = {text: translated.get(text, "") for text in table_texts()}
    rooms["rules"] = {text: known.get("rules", {}).get(text, "") for text in rule_texts()}
    for each in sentences().values():
        if not any(each.key in rooms[room] for room in BY_HAND):
            rooms.setdefault(each.room, {})[each.key] = translated.get(each.key, "")
    return rooms


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    arguments.add_argument("--missing", action="store_true", help="list what lacks its translation, and write nothing")
    rooms = wanted()
    if arguments.parse_args().missing:
        found = sentences()
        for room, texts in rooms.items():
            for text in (text for text, chinese in texts.items() if not chinese):
                given = found.get(text, Found(text, "--help"))
                values = "; ".join(f"{number}: {ast.unparse(value)}" for number, value in enumerate(given.values))
                sys.stdout.write(f"{room}\t{given.place}\t{text}\t{values}\n")
        return
    for stale in {path.stem for path in CATALOGUES.glob("*.json")} - set(rooms):
        (CATALOGUES / f"{stale}.json").unlink()
    for room, texts in rooms.items():
        written = json.dumps(texts, ensure_ascii=False, indent=1) + "\n"
        (CATALOGUES / f"{room}.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Keeps the catalogues of app/language/zh beside the sentences that the sources make.

    python scripts/language/write_sentences.py            # adds what is missing with an empty translation, drops what is gone
    python scripts/language/write_sentences.py --missing  # lists what lacks its translation, with the expressions that fill it

A sentence is read where it is made: a text or an f-string of two words or more becomes a template whose values are {0}, {1}, ...
What readers never see is passed over: docstrings, help texts, schemas, logs, patterns, citations, files that are generated.
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
CATALOGUES = ROOT / "app" / "language" / "zh"
# Data that readers see, and its fields that hold words; names and mere citations are no sentences.
DATA = {"hardware_profiles": ("note", "notes", "title"), "app/catalogue/models/presets": ("source",)}
FLAGS = ROOT / "calibration" / "records" / "known_flags.json"
_IN_DATA = re.compile(r"[a-z]{2,} [a-z]{2,}|\b[a-z]{3,} [a-z\d]|\ba [a-z]{3}")
# Rooms whose sentences are translated; `app` by its own rooms. Not: records of runs, the Python client.
PACKAGES = ("documents", "hardware_profiles", "cost_models", "frameworks", "calibration", "search", "app")
# What libraries say, parts of sentences that are put together, and words of tables stand in catalogues that people keep.
BY_HAND = ("foreign", "headers")
PASSED_OVER = {
    "app/cli/commands/schema.py": "JSON schemas",
    "app/cli/help.py": "what the library says, which is among the texts of --help",
    "app/http/metrics.py": "the help lines of Prometheus",
    "app/http/openapi.py": "the OpenAPI document",
    "app/http/envelope.py": "headers",
    "app/in_process": "refusals to Python, which are English as those of its client",
    "app/language": "itself",
    "app/storage/clock.py": "SQL",
    "app/storage/probes.py": "SQL",
    "app/catalogue/models/huggingface/keys.py": "names of keys",
    "app/jobs/defaults.py": "reasons that only tests read",
    "app/workers": "the log",
    "calibration/fitting/tuned_numbers.py": "rows of docs/switches.md",
    "documents/sentences.py": "what programmers read",
    "cost_models/constants.py": "rows of docs/accuracy.md",
    "cost_models/post_training/constants.py": "rows of docs/post-training.md",
    "cost_models/serving/engine.py": "rows of docs/serving.md",
    "frameworks/megatron_lm/script.py": "a script that is generated",
    "frameworks/mindformers/yaml_file.py": "a file that is generated",
    "search/executors/processes.py": "a program",
}
_NO_SENTENCES = re.compile(
    r"(^|\.)(Field|Option|Argument|Typer|Query|Header|Path|compile|sub|search|match|fullmatch|findall|split|removeprefix|removesuffix"
    r"|rpartition|partition|startswith|endswith|text|execute|TypeError|RuntimeError|AssertionError|NotImplementedError|UsageError"
    r"|APIKeyHeader|HTTPBearer|FastAPI|FastAPIOffline|setproctitle|_job_option|JSONDecodeError)$|^_?(log|logger)\."
)
_WORDS = re.compile(
    r"^an? [a-z]{3,}|[a-z]{2,}[)`',:;.]* +[`'(\"]?[A-Za-z\0]|\0\)?[,;:]? +\(?(?:a )?[a-z]{2,}"
    r"|[A-Za-z]{2,}[)`',:;.]* +[`'(]?[a-z]|^[,;(] ?[a-z]{2,} ?\0"
)
_GENERATED = re.compile(
    r"\s*(#|--[\w-]+ \w+$|-H |<|\[|export |select |insert |begin |exec |import |curl |Bearer |HTTP/|###|default-src|POST |bold )"
    r"|\s*(attachment|shared cop)|.*([|]|; charset=|torch\.nn\.functional\.silu|in \(\{1\}\)|\"ph\":|^tp\{)"
)
_FORMAT = re.compile(r"\{[a-z_]*(?:![rs])?(?::[^{}]*)?\}")
_GRAMMAR = {"s", "is", "are", "has", "have", "do", "does", "it", "an", "a", "the"}
_UNITS = {"ms", "GiB", "MWh", "USD", "MFU", "TFLOPS", "TTFT", "TPOT", "prefill", "decode", "throughput", "alltoall", "full"}


Found = tuple[str, int, tuple[ast.expr, ...], bool]


@dataclass(frozen=True)
class Sentence:
    """A template as the catalogue names it, where it was found first, and what fills it."""

    text: str
    place: str
    values: tuple[ast.expr, ...]
    is_head: bool = False  # a single word above a column


def room_of(sentence: Sentence) -> str:
    """The catalogue that holds it."""
    if sentence.is_head:
        return "headers"
    parts = sentence.place.split("/")
    return parts[0] if parts[0] != "app" else f"app.{parts[1].removesuffix('.py')}"


def template(text: str) -> str:
    """The name of a text in the catalogue: without the blanks around it, without the mark of a column of numbers."""
    return text.strip().removeprefix(">").removesuffix(".") if not text.strip().endswith("..") else text.strip()


def help_texts() -> list[str]:
    """What ``--help`` shows of all commands."""
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
    return sorted({template(" ".join(text.split())) for text in found if _IN_DATA.search(text)})


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
def sentences() -> dict[str, Sentence]:
    """Those of all sources, by their text."""
    found: dict[str, Sentence] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if any(place == each or place.startswith(f"{each}/") for each in PASSED_OVER):
                continue
            for text, line, values, is_head in _read(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(text, Sentence(text, f"{place}:{line}", values, is_head))
    return found


def _pieces(node: ast.AST) -> list[str | ast.expr] | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [each.value for each in node.values]  # type: ignore[attr-defined]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _pieces(node.left), _pieces(node.right)
        if left is not None or right is not None:
            return [*(left or [node.left]), *(right or [node.right])]
    return None


def _read(node: ast.AST, *, is_word: bool = False, is_head: bool = False) -> Iterator[Found]:
    if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Section") for base in node.bases):
        yield from (each for field in node.body if isinstance(field, ast.AnnAssign) for each in _descriptions(field))
    if isinstance(node, ast.Call) and _NO_SENTENCES.search(ast.unparse(node.func)):
        return
    if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Sentence":
        pieces = [
            each.replace("{{", "{").replace("}}", "}") if isinstance(each, str) else each for each in _pieces(node.args[0]) or ()
        ]
        yield from _template(node, pieces, True, is_head)
        for value in node.args[1:]:
            yield from _read(value, is_word=True)
        return
    pieces = _pieces(node)
    if pieces is None:
        heads_columns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("plain_table")
        for child in ast.iter_child_nodes(node):
            of_choice = isinstance(node, ast.IfExp) and child is not node.test
            beside = of_choice and any(isinstance(each, ast.JoinedStr) for each in (node.body, node.orelse))  # type: ignore[attr-defined]
            yield from _read(child, is_word=beside or (is_word and of_choice), is_head=heads_columns)
        return
    yield from _template(node, pieces, is_word, is_head)
    for piece in pieces:
        if not isinstance(piece, str):
            yield from _read(piece, is_word=True)


def _descriptions(field: ast.AnnAssign) -> Iterator[Found]:
    """What a text of a job stands for, which the refusal of another says."""
    if not re.search(r"\b(str|Text|Name)\b", ast.unparse(field.annotation)):
        return
    for node in ast.walk(field):
        if isinstance(node, ast.keyword) and node.arg == "description" and isinstance(node.value, ast.Constant):
            yield template(f"the {node.value.value}"), node.value.lineno, (), False


def _template(node: ast.AST, pieces: list[str | ast.expr], is_word: bool, is_head: bool) -> Iterator[Found]:
    shown, values = [], []
    for piece in pieces:
        if isinstance(piece, str):
            if isinstance(node, ast.JoinedStr):
                shown.append(piece)
                continue
            for index, part in enumerate(_FORMAT.split(piece)):
                if index:
                    shown.append(f"{{{len(values)}}}")
                    values.append(ast.Constant(""))
                shown.append(part)
        else:
            shown.append(f"{{{len(values)}}}")
            values.append(piece)
    text = "".join(shown)
    bare = re.sub(r"\{\d+\}", "\0", text)
    is_single = text.removeprefix(">").isalpha() and len(text) > 1 and text.removeprefix(">") not in _GRAMMAR | _UNITS
    is_sentence = "\n" not in text.strip() and _WORDS.search(bare) and not _GENERATED.match(text)
    if is_sentence or (is_single and (is_word or is_head)):
        yield template(text), node.lineno, tuple(values), is_head and is_single  # type: ignore[attr-defined]


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
    rooms["help"] = {text: known.get("help", {}).get(text, "") for text in help_texts()}
    rooms["data"] = {text: known.get("data", {}).get(text, "") for text in data_texts()}
    for each in sentences().values():
        if not any(each.text in rooms[room] for room in BY_HAND):
            rooms.setdefault(room_of(each), {})[each.text] = translated.get(each.text, "")
    return rooms


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    arguments.add_argument("--missing", action="store_true", help="list what lacks its translation, and write nothing")
    rooms = wanted()
    if arguments.parse_args().missing:
        found = sentences()
        for room, texts in rooms.items():
            for text in (text for text, chinese in texts.items() if not chinese):
                given = found.get(text, Sentence(text, "--help", ()))
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

"""What a file that a command refuses is, and which command reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from documents.errors import InputError
from documents.reading import read_bytes, shown_path
from documents.sentences import Sentence

_MOST_BYTES = 64 * 2**20
_SIGNATURES = (
    (b"%PDF-", Sentence("a PDF document")),
    (b"PK\x03\x04", Sentence("a ZIP archive or an office document")),
    (b"\x1f\x8b", Sentence("a compressed archive")),
    (b"\x89PNG", Sentence("a picture")),
    (b"SQLite format 3", Sentence("a database")),
)
_SCRIPT = Sentence("a launch script, which `meshplan tune` and `meshplan estimate` read")
# Keys of a document that tell its kind, most telling first.
_BY_KEYS: tuple[tuple[frozenset[str], Sentence], ...] = (
    (frozenset({"traceEvents"}), Sentence("a profiler's trace, which `meshplan compare-trace` reads")),
    (
        frozenset({"plans", "priced_with"}),
        Sentence(
            "the answer of a search, which `meshplan report` reads; its plans are jobs in plan-N.job.yaml of the same folder"
        ),
    ),
    (
        frozenset({"estimate", "priced_with"}),
        Sentence("the answer of an estimate or a check, which `meshplan check --baseline` reads"),
    ),
    (frozenset({"id", "kind", "state"}), Sentence("a study of a server, which `meshplan report ID` and the dashboard read")),
    (
        frozenset({"measured", "cluster"}),
        Sentence("records of measured runs, which `meshplan validate` and `meshplan calibrate` read"),
    ),
    (frozenset({"format", "family", "bands"}), Sentence("a calibration, which --calibration reads")),
    (frozenset({"hbm_bytes", "name"}), Sentence("a hardware profile, which --hardware reads")),
    (frozenset({"model", "cluster"}), Sentence("a job file, which `meshplan search` and `meshplan estimate` read")),
    (frozenset({"model_type"}), Sentence("a model's config.json, which `meshplan search` and `meshplan estimate` read")),
)
_LABEL = re.compile(r"^[\w.]+ \(--[a-z-]+\): ")  # in front of the path in a message on a field
_YAML_KEY = re.compile(r"^([A-Za-z_]\w*)\s*:", re.M)


def with_kind(error: InputError, arguments: Sequence[str]) -> str:
    """The error's message, with what the file is that it refuses, if it is an argument that another command reads."""
    message = str(error)
    own = f"`meshplan {arguments[0]}" if arguments else ""
    told = _LABEL.sub("", message)
    for word in arguments:
        path = Path(word.partition("=")[2] if word.startswith("--") else word)
        if told.startswith((f"{shown_path(path)}:", f"{shown_path(path)} ")):
            kind = kind_of(path)
            if kind is not None and own not in kind:
                return Sentence("{}. It is {}.", message.rstrip("."), kind)
    return message


def kind_of(path: Path) -> Sentence | None:
    """What the file is; None if it cannot be read or is nothing that is known here."""
    try:
        content = read_bytes(path, _MOST_BYTES)
    except InputError:
        return None
    for signature, kind in _SIGNATURES:
        if content.startswith(signature):
            return kind
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Sentence("a binary file")
    if text.startswith("#!") or path.suffix in (".sh", ".bash", ".slurm", ".sbatch"):
        return _SCRIPT
    keys = _keys(text)
    return next((kind for needed, kind in _BY_KEYS if needed <= keys), None)


def _keys(text: str) -> set[str]:
    """Keys at the top of a JSON or YAML document, or of the first of JSON lines."""
    if not text.lstrip().startswith("{"):
        return set(_YAML_KEY.findall(text))
    for part in (text, text.partition("\n")[0]):
        try:
            document = json.loads(part)
        except (ValueError, RecursionError):
            continue
        return set(document) if isinstance(document, dict) else set()
    return set()

"""Hashes of a document's content that do not depend on its form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

# Fields of dataclasses that say in words what something is or where it comes from, and change no number of an answer.
WORDING = frozenset({"title", "notes", "status", "provenance", "source"})
_LONG = 1024  # a tuple with this many entries is worth caching


def fingerprint(document: object) -> str:
    """Twelve hexadecimal digits that identify the content: dataclasses, mappings, sequences, arrays, enums and plain values."""
    return text_fingerprint(written(document))


def written(document: object) -> str:
    """The text that ``fingerprint`` hashes."""
    return canonical_json(_plain(document))


def canonical_json(document: object, *, ascii_only: bool = True, allow_nan: bool = False) -> str:
    """JSON that is equal for equal documents: keys sorted, no spaces. ``ValueError`` for NaN and infinity, unless allowed."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=allow_nan)


def sha256_of(text: str) -> str:
    """The SHA-256 hash of a text, in 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_fingerprint(text: str) -> str:
    """Twelve hexadecimal digits that identify a text."""
    return sha256_of(text)[:12]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and sum(len(row) for row in value if isinstance(row, tuple)) >= _LONG:
        return _of_rows(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.name not in WORDING}
    return value.tolist() if hasattr(value, "tolist") else value  # arrays and NumPy's numbers


@lru_cache(maxsize=4)  # tables of counted experts are long, and equal in all plans of a search
def _of_rows(rows: tuple[tuple[Any, ...], ...]) -> str:
    return sha256_of(json.dumps(rows))

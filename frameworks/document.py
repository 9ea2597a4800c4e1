"""Converts a document in YAML or TOML to options: ``path=value`` with the value in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.release import Release

MAX_DEPTH = 10  # MindFormers' own limit [mindformers-1.8, check_rules.py]
MAX_OPTIONS = 5_000
MAX_VALUE = 20_000  # characters


def options_from_document(release: Release, document: Mapping[Any, Any]) -> list[str]:
    """The options of a document, in its order; raises ``ReadingError``.

    A mapping is a section, unless its path is an argument: patterns of recompute are one value.
    """
    options: list[str] = []
    for path, value in _values(release, document, ()):
        if len(options) == MAX_OPTIONS:
            raise ReadingError(Sentence("the document has more than {} values; give the file of one training", MAX_OPTIONS))
        options.append(f"{path}={_json(path, value)}")
    return options


def _values(release: Release, section: Mapping[Any, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if not isinstance(key, str) or not key or "=" in key or not key.isprintable():
            raise ReadingError(Sentence("{!r} is no key of such a file; give a name", ".".join((*path, str(key)[:80]))))
        here = (*path, key)
        name = ".".join(here)
        if not isinstance(value, Mapping) or name in release.arguments:
            yield name, value
        elif len(here) == MAX_DEPTH:
            raise ReadingError(Sentence("{} is nested deeper than {} levels", name[:80], MAX_DEPTH))
        else:
            yield from _values(release, value, here)


def _json(path: str, value: Any) -> str:
    try:
        text = json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        raise ReadingError(
            Sentence("{} has a value that no option can hold; give a number, a text or a list", path[:80])
        ) from None
    if len(text) > MAX_VALUE:
        raise ReadingError(Sentence("{} is {} characters long; at most {} are allowed", path[:80], len(text), MAX_VALUE))
    return text

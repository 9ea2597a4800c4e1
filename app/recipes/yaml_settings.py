"""Settings of a YAML document by path, each with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from documents.reading import Limits
from frameworks.post_training.recipe import NULL, Written

LIMITS = Limits(aliases=True)


def yaml_settings(document: Mapping[str, Any], text: str) -> dict[str, Written]:
    """Every value of a document that was parsed from ``text``; a list is one value. Dashes in keys become underscores."""
    return dict(_leaves(document, "", dict(_lines(yaml.compose(text, Loader=yaml.SafeLoader), ""))))


def _leaves(inside: Mapping[str, Any], lead: str, lines: Mapping[str, int]) -> Iterator[tuple[str, Written]]:
    for key, value in inside.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{lead}{key}.", lines)
        else:
            shown = NULL if value is None or value == {} else str(value)
            yield f"{lead}{key}".replace("-", "_"), Written(shown, lines.get(f"{lead}{key}"))


def _lines(node: yaml.Node | None, lead: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield f"{lead}{key.value}", key.start_mark.line + 1
            yield from _lines(value, f"{lead}{key.value}.")

"""Reads YAML and JSON that come from outside, strictly: what is surprising is refused, not guessed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import yaml

from documents.errors import InputError, show

MAX_BYTES = 256 * 1024
MAX_NODES = 40_000  # 60 layers of 384 counted experts, a second of parsing
MAX_DEPTH = 32
MAX_DIGITS = 1_000


class _Refused(yaml.MarkedYAMLError):
    def __init__(self, problem: str, mark: yaml.Mark | None) -> None:
        super().__init__(problem=problem, problem_mark=mark)


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits):,} digits is too long")
    return int(digits)


class _StrictLoader(yaml.SafeLoader):
    num_nodes = 0
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise _Refused("aliases (*name) are not allowed", mark)
        self.num_nodes += 1
        self.depth += 1
        if self.num_nodes > MAX_NODES:
            raise _Refused(f"it holds more than {MAX_NODES:,} values", mark)
        if self.depth > MAX_DEPTH:
            raise _Refused(f"it is nested deeper than {MAX_DEPTH} levels", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused("a key must be plain text", key.start_mark)
            if key.value in mapping:
                raise _Refused(f"the key {show(key.value)} occurs twice", key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=True)
        return mapping

    def construct_decimal(self, node: yaml.ScalarNode) -> int:
        return _integer(node.value.replace("_", ""))


# The scalars of YAML 1.2: under 1.1, `1e12` is text, `off` is false, `1:30` is ninety and `010` is eight.
_StrictLoader.yaml_implicit_resolvers = {}
_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_decimal)
for _kind, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", r"[-+]?[0-9][0-9_]*", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN)", "-+.0123456789"),
):
    _StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {show(key)} occurs twice")
        mapping[key] = value
    return mapping


def _parse(text: str, *, is_json: bool) -> Any:
    if is_json:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_int=_integer, parse_constant=_refuse_constant)
    return yaml.load(text, Loader=_StrictLoader)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The file's text; ``InputError`` if it is not a readable text file of that size."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a directory; give a file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if len(content) > max_bytes:
        raise InputError(f"{path}: larger than {max_bytes // 1024} KiB; a file of this kind never is.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8.") from None
    if "\0" in text:
        raise InputError(f"{path}: not a text file in UTF-8.")
    return text


def parse_document(text: str, name: str, *, is_json: bool = False) -> dict[str, Any]:
    """The mapping that ``text`` holds; ``name`` is what messages call it."""
    try:
        document = _parse(text, is_json=is_json)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}:" if mark else ""
        raise InputError(f"{name}:{line} {error.problem or error.context}.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name}: line {error.lineno}: not valid JSON: {error.msg}.") from None
    except RecursionError:
        raise InputError(f"{name}: it is nested deeper than {MAX_DEPTH} levels.") from None
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{name}: {' '.join(str(error).split())}.") from None
    if not isinstance(document, dict):
        kind = {list: "a list", str: "text", type(None): "nothing"}.get(type(document), f"{show(document)}")
        raise InputError(f"{name}: holds {kind} where a mapping of names to values belongs.")
    return document


def read_document(path: Path) -> dict[str, Any]:
    """The mapping in a YAML or JSON file."""
    return parse_document(read_text(path), str(path), is_json=path.suffix.lower() == ".json")

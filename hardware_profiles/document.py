"""YAML from outside, read without trust: bounded in size and depth, no aliases, no duplicate keys, no tags."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import yaml

from hardware_profiles.schema import ProfileError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same result, ten times slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_NODES = 20_000

# A mapping, a list, a string, a number, a boolean or nothing.
Document: TypeAlias = "dict[str, Document] | list[Document] | str | int | float | bool | None"

_SCALAR_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null")}
_TEXT_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "timestamp", "value", "merge")}
_MAPPING_TAG = "tag:yaml.org,2002:map"
_SEQUENCE_TAG = "tag:yaml.org,2002:seq"


def read_document(path: Path) -> Document:
    """The content of a YAML file. Raises ``ProfileError`` for anything but one readable document."""
    try:
        if path.is_dir():
            raise ProfileError(f"{path} is a directory; a profile is one YAML file")
        if not path.exists():
            raise ProfileError(f"{path} does not exist")
        if not path.is_file():
            raise ProfileError(f"{path} is not a regular file; a profile is one YAML file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ProfileError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ProfileError(f"{str(path)!r} cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise ProfileError(f"{path} is larger than {MAX_BYTES // 1024} KiB, the most a profile may have")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path} is not UTF-8 text (byte {error.start}); a profile is one YAML file") from error
    return parse_document(text, str(path))


def parse_document(text: str, origin: str) -> Document:
    """The content of YAML text; ``origin`` names it in errors. Raises ``ProfileError``."""
    if len(text) > MAX_BYTES:
        raise ProfileError(f"{origin} is longer than {MAX_BYTES} characters, the most a profile may have")
    try:
        text.encode("utf-8")  # a lone surrogate would only surface later, where the text is printed
        _check_events(text, origin)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ProfileError(f"{origin} is not YAML: {_where(error)}") from error
    except UnicodeEncodeError as error:
        raise ProfileError(f"{origin} is not text: character {error.start} has no UTF-8 form") from error
    if node is None:
        raise ProfileError(f"{origin} is empty")
    return _value(node, origin)


def _check_events(text: str, origin: str) -> None:
    depth = count = 0
    for event in yaml.parse(text, Loader=_Loader):
        count += 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ProfileError(f"{origin}, line {_line(event)}: anchors and aliases are not allowed; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ProfileError(f"{origin}, line {_line(event)}: nested deeper than {MAX_DEPTH} levels")
        if count > MAX_NODES:
            raise ProfileError(f"{origin} has more than {MAX_NODES} values, the most a profile may have")


def _value(node: yaml.Node, origin: str) -> Document:
    if isinstance(node, yaml.MappingNode) and node.tag == _MAPPING_TAG:
        return _mapping(node, origin)
    if isinstance(node, yaml.SequenceNode) and node.tag == _SEQUENCE_TAG:
        return [_value(item, origin) for item in node.value]
    if isinstance(node, yaml.ScalarNode) and node.tag in _TEXT_TAGS:
        return str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.tag in _SCALAR_TAGS:
        try:
            scalar: Document = yaml.constructor.SafeConstructor().construct_document(node)
        except (yaml.YAMLError, ValueError, KeyError) as error:
            text = _shortened(str(node.value))
            raise ProfileError(f"{origin}, line {_line(node)}: {text} is not a number YAML can read") from error
        return scalar
    raise ProfileError(f"{origin}, line {_line(node)}: the tag {_shortened(node.tag)} is not allowed; write plain values")


def _mapping(node: yaml.MappingNode, origin: str) -> dict[str, Document]:
    result: dict[str, Document] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise ProfileError(f"{origin}, line {_line(key_node)}: a key must be a name, not a list or mapping")
        key = str(key_node.value)
        if key in result:
            raise ProfileError(f"{origin}, line {_line(key_node)}: the key {_shortened(key)} occurs twice")
        result[key] = _value(value_node, origin)
    return result


def _line(item: yaml.Event | yaml.Node) -> int:
    return item.start_mark.line + 1 if item.start_mark is not None else 1


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1} column {mark.column + 1}" if mark is not None else ""
        return f"{error.problem or error.context or 'unreadable'}{place}"
    return str(getattr(error, "reason", None) or "unreadable")

"""YAML files of MindFormers: their options by path, and edits of the file's text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml gives the same positions, fifty times slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

from app.launch_scripts.entries import MINDFORMERS, other_file
from app.launch_scripts.launch import Given, Launch, Passed, named_values
from app.launch_scripts.named_models import CONFIG
from documents.errors import InputError, show
from documents.reading import Limits, parse_document
from documents.sentences import Sentence, joined
from frameworks.document import options_from_document
from frameworks.framework import ReadingError
from frameworks.mindformers.table import FOLDER, MODEL, RELEASE
from frameworks.release import Release

YAML_LIMITS = Limits(aliases=True)
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")
MAX_PATHS = 5_000


class YamlLaunch:
    """A MindFormers file, read with the options of a release."""

    def __init__(self, text: str, given: Given, release: Release) -> None:
        self.text, self._given, self._release = text, given, release
        document = parse_document(text, given.name, limits=YAML_LIMITS)
        if release.name == RELEASE.name:
            _refuse_others(document, given.name)
        try:
            self.arguments = options_from_document(release, _with_configuration(document, given, release))
        except ReadingError as error:
            raise InputError(Sentence("{}: {}.", given.name, error)) from None
        self._said = named_values(release, self.arguments)
        self._root = yaml.compose(text, Loader=_Loader)
        assert isinstance(self._root, yaml.MappingNode)  # the document is a mapping
        self._nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._collect(self._root, "")
        self.num_devices: int | None = None  # the parallel degrees determine it
        self.entry = ""

    def _collect(self, node: yaml.Node, lead: str) -> None:
        """Key and value of each path."""
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            path = f"{lead}{key.value}"
            if path in self._nodes or len(self._nodes) > MAX_PATHS or path.count(".") > YAML_LIMITS.depth:
                continue
            self._nodes[path] = (key, value)
            self._collect(value, f"{path}.")

    def said(self) -> dict[str, tuple[str, ...]]:
        return dict(self._said)

    def line_of(self, name: str) -> int | None:
        nodes = self._nodes.get(name)
        return nodes[0].start_mark.line + 1 if nodes else None

    def again(self, text: str) -> Launch:
        return YamlLaunch(text, self._given, self._release)

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        """Nothing: the framework's reader names the options that it does not know."""
        return ()

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        written = _written(values)
        nodes = self._nodes.get(name)
        if nodes is not None:
            start, end = self._value_span(*nodes)
            lead = "" if self.text[start - 1 : start].isspace() else " "
            yield self.text[:start] + lead + written + self.text[end:]
            return
        parts = name.split(".")
        depth = next((d for d in range(len(parts) - 1, 0, -1) if self._is_open(".".join(parts[:d]))), 0)
        parent = self._nodes[".".join(parts[:depth])][1] if depth else self._root
        assert isinstance(parent, yaml.MappingNode)
        yield from self._added(parent, parts[depth:], written)

    def _value_span(self, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
        """Range of a value; an empty one, and a list or mapping on lines of its own, starts after its colon."""
        start, end = int(value.start_mark.index), _end(value)
        behind = self.text.index(":", int(key.end_mark.index)) + 1
        if start >= end:
            return behind, behind
        on_lines = isinstance(value, yaml.CollectionNode) and not value.flow_style
        return (behind if on_lines else start), end

    def _is_open(self, path: str) -> bool:
        nodes = self._nodes.get(path)
        return nodes is not None and isinstance(nodes[1], yaml.MappingNode) and bool(nodes[1].value)

    def _added(self, parent: yaml.MappingNode, parts: list[str], written: str) -> Iterator[str]:
        text = self.text
        last_key, last_value = parent.value[-1]
        end = self._value_span(last_key, last_value)[1]
        if parent.flow_style:
            inside = ": {".join(parts) + f": {written}" + "}" * (len(parts) - 1)
            yield f"{text[:end]}, {inside}{text[end:]}"
            return
        indent = last_key.start_mark.column
        lines = [" " * (indent + 2 * depth) + f"{part}:" for depth, part in enumerate(parts)]
        lines[-1] += f" {written}"
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        yield text[:line_end] + "\n" + "\n".join(lines) + text[line_end:]

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        yield from ()

    def without(self, name: str) -> Iterator[str]:
        """The file without an option, and without its section if that becomes empty."""
        section = name.rpartition(".")[0]
        nodes = self._nodes.get(section)
        if nodes is not None and len(nodes[1].value) == 1:
            yield from self.without(section)
        nodes = self._nodes.get(name)
        if nodes is None:
            return
        key, value = nodes
        start, end = key.start_mark.index, self._value_span(key, value)[1]
        line_start, line_end = self.text.rfind("\n", 0, start) + 1, self.text.find("\n", end)
        if not self.text[line_start:start].strip():
            yield self.text[:line_start] + (self.text[line_end + 1 :] if line_end >= 0 else "")
        behind = re.compile(r"\s*,\s*").match(self.text, end)
        yield self.text[:start] + self.text[behind.end() if behind else end :]


def _with_configuration(document: Mapping[str, Any], given: Given, release: Release) -> Mapping[str, Any]:
    """The document with the model of the folder that it names; what it states itself wins [mindformers-1.8, build_config.py]."""
    if not document.get(FOLDER) or CONFIG not in given.files:
        return document
    read = parse_document(given.files[CONFIG], CONFIG)
    known = {key: value for key, value in read.items() if value is not None and f"{MODEL}.{key}" in release.arguments}
    model = document.get("model") or {}
    stated = model.get("model_config") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(stated or {}, dict):
        return document  # which the reader of options refuses
    return {**document, "model": {**model, "model_config": {**known, **(stated or {})}}}


def _refuse_others(document: Mapping[str, Any], name: str) -> None:
    """Refuse a file that MindFormers does not read: another program's, or one without any key of its own."""
    model, parallel = (document.get(name) for name in ("model", "parallel"))
    is_own = isinstance(model, dict) and "model_config" in model
    is_own |= isinstance(parallel, dict) and any(f"parallel.{key}" in RELEASE.arguments for key in parallel)
    owner = None if is_own else other_file(document)
    if owner:
        raise InputError(Sentence("{}: a file of {}, whose files are not read.", name, owner))
    if owner is not None:
        raise InputError(
            Sentence(
                "{}: no file of MindFormers, which has one of {}; whose it is, is not known.", name, joined(", ", MINDFORMERS)
            )
        )


def _end(node: yaml.Node) -> int:
    """End of a value's last character; the parser's end of a block is the start of the next token."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last: Any = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _written(values: tuple[str, ...]) -> str:
    """A value as YAML: JSON, or a plain word without quotes."""
    (value,) = values
    try:
        parsed = json.loads(value)
    except ValueError:
        raise InputError(Sentence("{} is no value of an option.", show(value))) from None
    if isinstance(parsed, str) and _PLAIN.fullmatch(parsed) and parsed.lower() not in ("true", "false", "null", "yes", "no"):
        return parsed
    return json.dumps(parsed, ensure_ascii=False)

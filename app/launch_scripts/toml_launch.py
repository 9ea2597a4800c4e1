"""TOML files of torchtitan: their options by path, and edits of the file's text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.launch_scripts.launch import Given, Launch, Passed, named_values
from documents.errors import InputError, show
from documents.sentences import Sentence
from frameworks.document import options_from_document
from frameworks.framework import ReadingError
from frameworks.release import Release

_TABLE = re.compile(r"[ \t]*\[(?P<name>[^\[\]\n]+)\][ \t]*(?:#[^\n]*)?(?:\n|$)")
_KEY = re.compile(r"[ \t]*(?P<key>[A-Za-z0-9_\-.\"' \t]+?)[ \t]*=[ \t]*")
_PART = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)")
_TEXT = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.S)
MAX_PATHS = 5_000


class _Span(NamedTuple):
    """A key's line, and where its value begins and ends."""

    line_start: int
    start: int
    end: int


class TomlLaunch:
    """A torchtitan file, read with the options of a release."""

    def __init__(self, text: str, given: Given, release: Release) -> None:
        self.text, self._given, self._release = text, given, release
        try:
            self.arguments = options_from_document(release, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(Sentence("{}: not valid TOML: {}.", given.name, str(error).rstrip("."))) from None
        except (ReadingError, RecursionError) as error:
            raise InputError(Sentence("{}: {}.", given.name, error)) from None
        self._said = named_values(release, self.arguments)
        self._spans, self._tables = _places(text)
        self.num_devices: int | None = None  # the parallel degrees determine it
        self.entry = ""

    def said(self) -> dict[str, tuple[str, ...]]:
        return dict(self._said)

    def line_of(self, name: str) -> int | None:
        span = self._spans.get(name)
        return None if span is None else self.text.count("\n", 0, span.line_start) + 1

    def again(self, text: str) -> Launch:
        return TomlLaunch(text, self._given, self._release)

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        """Nothing: the framework's reader names the options that it does not know."""
        return ()

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        written = _written(values)
        span = self._spans.get(name)
        if span is not None:
            yield self.text[: span.start] + written + self.text[span.end :]
            return
        table, _, key = name.rpartition(".")
        end = self._tables.get(table)
        if end is None:
            yield self.text.rstrip("\n") + f"\n\n[{table}]\n{key} = {written}\n"
            return
        lead = "" if not end or self.text[end - 1] == "\n" else "\n"
        yield self.text[:end] + f"{lead}{key} = {written}\n" + self.text[end:]

    def without(self, name: str) -> Iterator[str]:
        span = self._spans.get(name)
        if span is None:
            return
        line_end = self.text.find("\n", span.end)
        yield self.text[: span.line_start] + (self.text[line_end + 1 :] if line_end >= 0 else "")

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        yield from ()


def _places(text: str) -> tuple[dict[str, _Span], dict[str, int]]:
    """The span of each key by its path, and for each table the place behind its last key. The text is valid."""
    spans: dict[str, _Span] = {}
    tables: dict[str, int] = {}
    table, at = "", 0
    while at < len(text) and len(spans) < MAX_PATHS:
        header, key = _TABLE.match(text, at), _KEY.match(text, at)
        if header:
            table, at = ".".join(_parts(header["name"])), header.end()
            tables[table] = at
        elif key and key["key"].strip():
            end = _end_of_value(text, key.end())
            name = ".".join(([table] if table else []) + _parts(key["key"]))
            spans.setdefault(name, _Span(at, key.end(), end))
            at = _next_line(text, end)
            tables[table] = at
        else:
            at = _next_line(text, at)
    return spans, tables


def _parts(name: str) -> list[str]:
    return [next((part for part in found.groups() if part is not None), "") for found in _PART.finditer(name)]


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _end_of_value(text: str, start: int) -> int:
    """The end of a value: of its last bracket, or of its last character before a comment."""
    depth, at, last = 0, start, start
    while at < len(text):
        quoted = _TEXT.match(text, at)
        if quoted:
            at = last = quoted.end()
            continue
        sign = text[at]
        if sign == "\n" and depth == 0:
            break
        if sign == "#":
            if depth == 0:
                break
            at = _next_line(text, at)
            continue
        depth += (sign in "[{") - (sign in "]}")
        at += 1
        if not sign.isspace():
            last = at
    return last


def _written(values: tuple[str, ...]) -> str:
    """A value as TOML: JSON, which is TOML for texts, numbers, booleans and lists."""
    (value,) = values
    try:
        parsed = json.loads(value)
    except ValueError:
        raise InputError(Sentence("{} is no value of an option.", show(value))) from None
    return json.dumps(parsed, ensure_ascii=False)

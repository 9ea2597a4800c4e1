"""Scripts that start MindSpeed-LLM's ``train_fsdp2.py``: a YAML file, and arguments above it [mindspeed-llm, arguments.py]."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any

from app.launch_scripts.launch import Given, Launch, named_values
from app.launch_scripts.shell_launch import ShellArgument, ShellLaunch
from app.launch_scripts.yaml_launch import YamlLaunch
from documents.errors import InputError, show
from documents.sentences import Sentence
from documents.shell.text import Word
from frameworks.framework import ReadingError
from frameworks.mindspeed_llm_fsdp2.values import typed
from frameworks.options import options_of
from frameworks.release import Release

SUFFIXES = (".yaml", ".yml")


class Fsdp2Launch(ShellLaunch):
    """A script, whose arguments are those of its YAML file with those of the command in their place; edits are of the script."""

    def __init__(self, text: str, given: Given, release: Release) -> None:
        self._file: Word | None = None
        super().__init__(text, given, release)

    def _grouped(self, words: Sequence[Word]) -> dict[str, ShellArgument]:
        if words and words[0].text.endswith(SUFFIXES):
            self._file = words[0]
            return super()._grouped(words[1:])
        return super()._grouped(words)

    @cached_property
    def _of_file(self) -> dict[str, Any]:
        """Options of the YAML file; raises ``InputError`` if it is not given."""
        if self._file is None:
            return {}
        name = PurePath(self._file.text).name
        text = self._given.files.get(name)
        if text is None:
            raise InputError(
                Sentence(
                    "{}: line {}: its arguments are in {}, which is not there; give --with {}.",
                    self._given.name,
                    self._file.line,
                    show(self._file.text),
                    name,
                )
            )
        return options_of(YamlLaunch(text, Given(name), self._release).arguments)

    @property
    def arguments(self) -> list[str]:
        """``path=value`` with the value in JSON. A bare argument at the very end gives way to the file, as in the parser."""
        own = {name: self._value(argument) for name, argument in self._by_name.items()}
        last = next(reversed(self._by_name), "") if self._by_name else ""
        merged = {**own, **self._of_file, **{name: value for name, value in own.items() if name != last or value is not True}}
        return [f"{name}={json.dumps(value)}" for name, value in merged.items()]

    def _value(self, argument: ShellArgument) -> Any:
        """A value of the command, of the argument's type; true for a bare argument."""
        if not argument.texts:
            return True
        value = argument.texts[0] if len(argument.texts) == 1 else list(argument.texts)
        try:
            return typed(self._release.arguments.get(argument.name), argument.name, value)
        except ReadingError:  # the reader says so
            return value

    def said(self) -> dict[str, tuple[str, ...]]:
        return {**named_values(self._release, self.arguments), **{k: v for k, v in super().said().items() if k.startswith(" ")}}

    def again(self, text: str) -> Launch:
        return Fsdp2Launch(text, self._given, self._release)

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        """The script with an argument set, from its value in JSON."""
        value = json.loads(values[0])
        words = value if isinstance(value, list) else [value]
        yield from super().with_values(name, tuple(word if isinstance(word, str) else json.dumps(word) for word in words))

"""Options of YAML and TOML files: ``path=value`` with the value in JSON, as MindFormers takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from documents.bounds import MAX_NUMBER
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.release import Release

Options = dict[str, Any]


def options_of(arguments: Iterable[str]) -> Options:
    """Values by path; raises ``ReadingError``."""
    options: Options = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        try:
            options[name] = json.loads(value)
        except ValueError:
            raise ReadingError(Sentence("{!r} is not path=value with the value in JSON", argument[:80])) from None
    return options


def as_given(value: Any) -> tuple[str, ...]:
    """A value in the form of the release's table; for a mapping, its keys."""
    if isinstance(value, Mapping):
        return tuple(map(str, value)) or ("",)
    if isinstance(value, list):
        flat = [item for entry in value for item in (entry if isinstance(entry, list) else [entry])]
        return tuple(item if isinstance(item, str) else json.dumps(item) for item in flat) or ("",)
    if isinstance(value, bool):
        return (str(value),)
    return (value if isinstance(value, str) else json.dumps(value),)


class OptionValues:
    """Options by path, with the defaults of a release for those that are not given."""

    def __init__(self, release: Release, options: Mapping[str, Any]) -> None:
        self.release, self.options = release, options

    def value(self, name: str) -> Any:
        """The value, given or by default."""
        given = self.options.get(name)
        argument = self.release.arguments.get(name)
        return given if given is not None or argument is None else argument.default

    def number(self, name: str, low: int = 1) -> int:
        """A whole number within bounds."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_NUMBER:
            raise ReadingError(Sentence("{} {!r} is not allowed; give a whole number from {}", name, str(value)[:80], low))
        return value

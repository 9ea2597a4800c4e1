"""What a launch script says, whatever its form: arguments by name with the lines they stand in, and how to write them anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from frameworks.release import Release


@dataclass(frozen=True)
class Given:
    """Where a script comes from, and what it does not say itself: values of the environment, files that it sources."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Passed:
    """Something that was passed over."""

    line: int | None
    text: str
    reason: str


class Launch(Protocol):
    """A script that was read with the arguments of a release."""

    @property
    def text(self) -> str:
        """The script."""

    @property
    def arguments(self) -> list[str]:
        """The arguments, as the release's reader takes them."""

    @property
    def num_devices(self) -> int | None:
        """What the launcher starts; None where the script does not decide it."""

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        """What was passed over and may matter."""

    def said(self) -> dict[str, tuple[str, ...]]:
        """The values of each argument by its present name, then whatever else must stay as it is."""

    def line_of(self, name: str) -> int | None:
        """The line of an argument."""

    def again(self, text: str) -> Launch:
        """Another text, read in the same way."""

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        """The script with an argument set, in several ways of writing it, the nicest first."""

    def without(self, name: str) -> Iterator[str]:
        """The script with an argument left out."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that it exports, as far as it decides them."""

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        """The script with a variable exported, or not (None); nothing where such a file cannot."""


def named_values(release: Release, arguments: list[str]) -> dict[str, tuple[str, ...]]:
    """Values by name, of arguments as a writer gives them: ``--name value`` or ``name=value``."""
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for token in arguments:
        if token.startswith("--"):
            written, equals, value = token[2:].partition("=")
            name = release.former.get(written, written)
            found[name] = (value,) if equals else ()
        elif name:
            found[name] += (token,)
        else:
            written, _, value = token.partition("=")
            found[written] = (value,)
    return found

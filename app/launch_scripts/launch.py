"""A launch script in any form: arguments by name with their lines, and edits of its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Protocol

from documents.late_methods import dataclass
from frameworks.release import Release


@dataclass(frozen=True)
class Given:
    """A script's origin, and data outside of it: values of the environment, and sourced files."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Passed:
    """A part of the script that was passed over."""

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
    def entry(self) -> str:
        """The name of the program that starts; empty if the form has none."""

    @property
    def num_devices(self) -> int | None:
        """Number of processes that the launcher starts; None if the script does not decide it."""

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        """Parts that were passed over and may matter."""

    def said(self) -> dict[str, tuple[str, ...]]:
        """The values of each argument by its current name, then other parts that must stay unchanged."""

    def line_of(self, name: str) -> int | None:
        """The line of an argument."""

    def again(self, text: str) -> Launch:
        """Another text, read in the same way."""

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        """The script with an argument set, in several notations, the best first."""

    def without(self, name: str) -> Iterator[str]:
        """The script with an argument left out."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The exported variables whose values the script decides."""

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        """The script with a variable exported, or not (None); empty if the form has no variables."""


def named_values(release: Release, arguments: list[str]) -> dict[str, tuple[str, ...]]:
    """Values by name from a writer's arguments: ``--name value`` or ``name=value``."""
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

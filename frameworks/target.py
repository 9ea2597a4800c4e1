"""Targets: the physics alone, or a release of a training framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from documents.errors import InputError
from documents.late_methods import dataclass


class TargetError(InputError):
    """An unknown target; the message names the value and the allowed ones."""


@dataclass(frozen=True)
class Target:
    """A framework and the release whose rules apply; ``any`` has no release.

    ``families`` are the device families that the framework runs on. ``year`` is the release's date (2024.5: July 2024), where
    prices depend on it; ``earlier`` are the years of releases with the same rules that are priced apart. ``stack`` is the stack
    that prices it, if it has another name. ``torch_compile``: a job for it compiles its layers unless it says otherwise.
    ``loss_chunks``: chunks of its loss unless a job says otherwise, 0 for a loss of all tokens at once.
    ``newest_layers``: as in ``Software``. ``fp8_recipe``: how it scales operands in 8 bits unless it is told.
    """

    name: str
    release: str = ""
    other_releases: tuple[str, ...] = ()  # spellings of it, and releases with the same rules
    families: tuple[str, ...] = ()
    year: float | None = None
    earlier: Mapping[str, float] = field(default_factory=dict, compare=False)
    stack: str = ""
    torch_compile: bool = False
    loss_chunks: int = 0
    newest_layers: bool = False
    fp8_recipe: str | None = None

    @property
    def priced_as(self) -> str:
        """The stack that prices it."""
        return self.stack or self.name

    @property
    def label(self) -> str:
        """``name@release``, or the name alone."""
        return f"{self.name}@{self.release}" if self.release else self.name


ANY = Target("any")

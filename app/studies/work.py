"""What a kind of study has to offer: to take a request, to go on where a checkpoint left it, and to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from app.storage.tables import Point, Trial
from meshplan import __version__
from search.session.progress import Progress
from search.session.runner import SteppedWork

if TYPE_CHECKING:
    from pydantic import BaseModel

    from app.storage.session import Database

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a study is made of: what lists show of it, and all that decides its answer. The names are those of its row."""

    model_name: str
    hardware: str  # names between commas, where there are several
    num_devices: int  # the largest count
    objective: str
    job: dict[str, Any]
    hardware_profile: dict[str, Any]
    calibration: dict[str, Any]
    space: dict[str, Any] = field(default_factory=dict)
    sampler: str = "exhaustive"
    seed: int = 0
    assumptions: Sequence[str] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class StoredStudy:
    """What a study holds to be run: its inputs, and how far it came. ``records`` are rows of its kind's table."""

    id: str
    job: dict[str, Any]
    hardware_profile: dict[str, Any]
    space: dict[str, Any]
    calibration: dict[str, Any]
    checkpoint: dict[str, Any] | None
    records: tuple[Row, ...] = ()

    @property
    def is_of_this_version(self) -> bool:
        """Whether the checkpoint can be continued: another version may enumerate or price differently."""
        return self.checkpoint is None or self.checkpoint["version"] == __version__

    @property
    def left_at(self) -> dict[str, Any] | None:
        """The checkpoint as the work wrote it."""
        return None if self.checkpoint is None else self.checkpoint["search"]


@dataclass(frozen=True)
class Outcome:
    """How a study ends."""

    state: str
    result: dict[str, Any] | None = None
    plans: Sequence[dict[str, Any]] = ()
    rejections: Sequence[dict[str, Any]] = ()
    error: str | None = None
    assumptions: Sequence[str] = ()
    warnings: Sequence[str] | None = None  # None: those with which it was asked


class Work(SteppedWork[Progress], Protocol):
    """A study under way."""

    @property
    def time_limit_s(self) -> float | None:
        """Of all attempts together."""

    @property
    def num_records(self) -> int:
        """Rows that there are by now, those of earlier attempts among them."""

    def records(self, start: int) -> list[Row]:
        """Rows from that number on."""

    def checkpoint(self) -> dict[str, Any]:
        """What is not in the records, as JSON."""

    def outcome(self, state: str, stopped_by: str | None) -> Outcome:
        """What has been found, as it is stored."""


@dataclass(frozen=True)
class Kind:
    """``asked`` reads a request, ``InputError`` where it has no answer; ``continued`` begins the work or goes on with it.

    ``table`` is where records go, if the work makes any.
    """

    name: str
    request: type[BaseModel]
    asked: Callable[[Mapping[str, Any], Database], Asked]
    continued: Callable[[StoredStudy], Work]
    table: type[Trial | Point] | None = None


def checkpoint_of(work: Work) -> dict[str, Any]:
    """The checkpoint with the version that wrote it."""
    return {"version": __version__, "search": work.checkpoint()}

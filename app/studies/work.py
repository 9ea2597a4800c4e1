"""The interface of a kind of study: read a request, continue from a checkpoint, and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from app.storage.tables import Point, Trial
from documents.late_methods import dataclass
from meshplan import __version__
from search.session.progress import Progress
from search.session.runner import SteppedWork

if TYPE_CHECKING:
    from pydantic import BaseModel

    from app.storage.session import Database

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """Inputs of a new study: the columns for lists, and everything that decides its answer. Fields are named like the columns."""

    model_name: str
    hardware: str  # names, separated by commas if there are several
    num_devices: int  # the largest number of devices
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
    """A stored study for a run: its inputs and progress. ``records`` are rows of its kind's table."""

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
        """The checkpoint, without the version."""
        return None if self.checkpoint is None else self.checkpoint["search"]


@dataclass(frozen=True)
class Outcome:
    """The result of a study."""

    state: str
    result: dict[str, Any] | None = None
    plans: Sequence[dict[str, Any]] = ()
    rejections: Sequence[dict[str, Any]] = ()
    error: str | None = None
    assumptions: Sequence[str] = ()
    warnings: Sequence[str] | None = None  # None: unchanged
    doubts: Sequence[str] = ()  # warnings before the others


class Work(SteppedWork[Progress], Protocol):
    """A running study."""

    @property
    def time_limit_s(self) -> float | None:
        """Time limit of all attempts together."""

    @property
    def num_records(self) -> int:
        """Number of rows so far, including the rows of earlier attempts."""

    def records(self, start: int) -> list[Row]:
        """Rows from that number on."""

    def checkpoint(self) -> dict[str, Any]:
        """State that is not in the records, as JSON."""

    def outcome(self, state: str, stopped_by: str | None) -> Outcome:
        """The results, in the form that is stored."""


@dataclass(frozen=True)
class Kind:
    """A kind of study. ``asked`` reads a request, ``InputError`` for a bad one; ``continued`` starts or continues the work.

    ``table`` stores the records, if the work makes any.
    """

    name: str
    request: type[BaseModel]
    asked: Callable[[Mapping[str, Any], Database], Asked]
    continued: Callable[[StoredStudy], Work]
    table: type[Trial | Point] | None = None


def checkpoint_of(work: Work) -> dict[str, Any]:
    """The checkpoint with the version that wrote it."""
    return {"version": __version__, "search": work.checkpoint()}

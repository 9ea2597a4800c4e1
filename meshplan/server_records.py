"""Records in the answers of a server: studies, events, plans and calibrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

State = Literal["queued", "running", "completed", "failed", "cancelled"]
Kind = Literal["search", "sweep", "rl"]
Visibility = Literal["private", "link", "public"]
Language = Literal["en", "zh"]
CheckStatus = Literal["passed", "broken", "infeasible", "cut"]
JsonObject = dict[str, Any]
FINISHED = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Study:
    """A search or a sweep on the server. ``document`` is the server's whole answer."""

    id: str
    state: State
    progress: JsonObject | None
    result: JsonObject | None
    error: str | None
    document: JsonObject

    @property
    def is_finished(self) -> bool:
        """Whether the study has ended; somebody may still resume it."""
        return self.state in FINISHED

    @property
    def name(self) -> str:
        """The name that its owner gave it; empty without one."""
        return str(self.document["name"])

    @property
    def tags(self) -> list[str]:
        """Tags that its owner gave it."""
        return list(self.document["tags"])

    @property
    def note(self) -> str:
        """The note that its owner wrote; empty without one."""
        return str(self.document["note"])

    @property
    def is_archived(self) -> bool:
        """Whether it is archived: hidden from lists by default, and never deleted for its age."""
        return bool(self.document["archived"])


@dataclass(frozen=True)
class Event:
    """A change of a study; ``kind`` is ``state`` or ``progress``."""

    sequence: int
    kind: str
    data: JsonObject


@dataclass(frozen=True)
class Plan:
    """A ranked layout of the job."""

    rank: int
    plan_id: str
    strategy: JsonObject
    estimate: JsonObject
    explanation: JsonObject
    document: JsonObject

    @property
    def step_time_s(self) -> float:
        """Predicted duration of one training step. [s]"""
        return float(self.estimate["step_time_s"])


@dataclass(frozen=True)
class Calibration:
    """Constants fitted to a server's stored runs. ``id`` goes into a job as ``software.calibration``.

    ``errors`` are those before the fit, left out and fitted. ``file`` is for ``--calibration``; ``document`` is all of it.
    """

    id: str
    hardware: str
    stack: str
    num_runs: int
    errors: JsonObject
    warnings: list[str]
    file: JsonObject
    document: JsonObject

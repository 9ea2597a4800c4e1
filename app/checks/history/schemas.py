"""Schemas of kept checks, and of the history in a request."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from app.answers.schemas import PricedWith
from app.checks.schemas import CheckDocument, CheckItem, CheckRequest, Movement, PartMovement, Status
from app.http.ownership import Visibility
from app.studies.labels import NameText, one_line
from app.text.json_documents import DescribedBy, Document
from documents.checking import Section
from documents.errors import show
from documents.said import Said
from documents.sentences import Sentence

MAX_LINE, MAX_URL, MAX_SOURCE = 200, 500, 60  # characters

_COMMIT, _URL, _SOURCE = r"^[0-9A-Za-z._-]{1,64}$", r"^https?://[!-~]+$", r"^[ -~]*$"


def _matching(pattern: str, sentence: str) -> Any:
    """Text of that pattern, refused with the sentence; schemas show the pattern."""

    def matched(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(Sentence("{} is not allowed; {}", show(text), sentence))
        return text

    return AfterValidator(matched)


Commit = Annotated[
    str,
    Field(json_schema_extra={"pattern": _COMMIT}),
    _matching(_COMMIT, Sentence("give up to 64 letters, digits, '.', '_' or '-', as a repository names a version.")),
]
Line = Annotated[str, Field(min_length=1, max_length=MAX_LINE), AfterValidator(one_line)]
ChangeUrl = Annotated[
    str,
    Field(max_length=MAX_URL, json_schema_extra={"pattern": _URL}),
    _matching(_URL, Sentence("give an address that begins with https://.")),
]
Source = Annotated[
    str,
    Field(max_length=MAX_SOURCE, json_schema_extra={"pattern": _SOURCE}),
    _matching(_SOURCE, Sentence("give the name of a variable or an option.")),
]
HistoryName = Annotated[NameText, Field(min_length=1)]


class TakenFrom(Section):
    """Source of each value in the caller: a variable of its pipeline, or an option."""

    commit: Source | None = None
    branch: Source | None = None
    change_url: Source | None = None


class HistoryEntry(Section):
    """History of a check, and the change that it checked. The server stores these values without reading them."""

    name: HistoryName = Field(
        description="name of the history; checks of one name are one history, usually those of one job file"
    )
    commit: Commit | None = None
    branch: Line | None = Field(default=None, description="the branch that the change is on")
    change_url: ChangeUrl | None = Field(default=None, description="of the merge request, pull request or commit")
    taken_from: TakenFrom = Field(default_factory=TakenFrom)
    baseline_name: Line | None = Field(default=None, description="what to call the baseline that the check was given")
    visibility: Visibility = Field(default="private", description="to other keys, as of a study")


class KeepRequest(CheckRequest):
    """A check and the history that it goes into."""

    history: HistoryEntry


class KeptChanges(Section):
    """Changes to a kept check; fields that are left out keep their values."""

    visibility: Visibility | None = None
    archived: bool | None = Field(default=None, description="out of lists that do not ask for it, and not deleted for its age")


class Moves(Document):
    """Changes of metrics from the baseline of the check, and their causes."""

    against: str = Field(description="the baseline")
    pinned: bool
    movements: list[Movement]
    time_parts: list[PartMovement] = Field(description="of the step [s], those that moved most, up to three")
    memory_parts: list[PartMovement] = Field(description="the same of the memory [bytes]")
    job_changes: list[Said]
    tool_changes: list[Said]


class KeptCheckSummary(Document):
    """A kept check on one line of its history. Times are seconds since 1970."""

    id: str
    created_at_s: float
    owner: str | None = Field(description="whose key had it kept; null: everybody's")
    visibility: Visibility
    archived: bool
    name: str
    commit: str | None
    branch: str | None
    change_url: str | None
    taken_from: dict[str, str] = Field(description="where the caller had commit, branch and change_url from")
    status: Status
    version: str
    job_sha256: str | None = Field(description="of the resolved job without its search; the same where nothing of the job moved")
    model: str | None
    hardware: str | None
    num_devices: int | None
    priced_with: PricedWith | None
    metrics: dict[str, float] = Field(
        description="by name, in its unit: those of the estimate that trends show, and of the budget"
    )
    lines: list[CheckItem] = Field(description="what was looked at: each bound with its value")
    moved: Moves | None = Field(description="null without a baseline")
    etag_version: int = Field(default=0, exclude=True)  # version in the ETag; no part of the answer


class KeptCheckDocument(KeptCheckSummary):
    """A kept check with the whole answer."""

    check: Annotated[dict[str, Any], DescribedBy(CheckDocument)]


class HistorySummary(Document):
    """Checks of one name and owner."""

    name: str
    owner: str | None
    num_checks: int
    num_not_passed: int
    first_at_s: float
    last: KeptCheckSummary

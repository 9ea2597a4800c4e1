"""Upload of checks to a server, which makes each check itself with the same budget and baseline and keeps it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from app.calibrations.constants import own_calibrations
from app.checks.change import Change, change_of
from app.checks.history.schemas import HistoryEntry
from app.jobs.job import Job
from calibration.files.calibrations import calibration_document
from documents.checking import check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence
from hardware_profiles import catalogue
from hardware_profiles.writer import profile_document
from meshplan.client import Client, MeshplanError


@dataclass(frozen=True)
class CheckToUpload:
    """A job with its budget and baseline; ``status`` is this command's result."""

    title: str
    job: Job
    status: str
    baseline: tuple[Mapping[str, Any], str] | None


class CheckUploader:
    """The histories of one server. Construction sends nothing; ``InputError`` if an option cannot be used."""

    def __init__(self, url: str, history: str | None, change: Mapping[str, str | None], visibility: str | None) -> None:
        self._url = url.rstrip("/")
        try:
            self._client = Client(url, api_key=os.environ.get("MESHPLAN_API_KEY"))
        except MeshplanError as error:
            raise InputError(Sentence("--server: {} {}", error.detail, error.hint or "").rstrip()) from None
        self._history, self._shared = history, {} if visibility is None else {"visibility": visibility}
        _accepted("name", "a" if history is None else history, **self._shared)
        self.change: Change = change_of(change, os.environ, _accepted)

    def check_name(self, title: str) -> None:
        """The name of the check; ``InputError`` if the job's own name is not allowed for a history."""
        if self._history is None:
            _accepted("name", title)

    def upload(self, found: CheckToUpload, budget: Mapping[str, Any] | None, *, pin: bool) -> str:
        """Upload a check and return a sentence on the result; a failed upload is no failure of the check."""
        name, said = self._history or found.title, dict[str, Any]({**self.change.values, **self._shared})
        try:
            document, parts = self_contained(found.job)
            kept = self._client.keep_check(
                document,
                name,
                **parts,
                budget=budget,
                baseline=None if found.baseline is None else found.baseline[0],
                baseline_name=None if found.baseline is None else found.baseline[1][:200],
                pin=pin,
                taken_from=self.change.taken_from,
                **said,
            )
        except (MeshplanError, InputError) as error:
            why = error.detail if isinstance(error, MeshplanError) else str(error)
            return Sentence("--server: {} is not kept: {}", found.title, why.rstrip("."))
        where = Sentence(
            "--server: kept in the history {!r} as {}/checks/{}: {}", name, self._url, kept["id"], self.change.sentence
        )
        if kept["status"] == found.status:
            return where
        return Sentence(
            "{}; the server, of version {}, judges {}, and this command {}", where, kept["version"], kept["status"], found.status
        )


def self_contained(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job with file names instead of paths, and the content of those files by part of the request."""
    document, parts = dict(job.document), dict[str, Any]()
    hardware = document["cluster"]["hardware"]
    if hardware not in catalogue.names():
        document["cluster"] = {**document["cluster"], "hardware": PurePath(hardware).name}
        parts["hardware_profile"] = profile_document(job.workload.cluster.profile)
    if job.calibration is not None and "/" in job.calibration:
        (own,) = own_calibrations(job)
        document["software"] = {**document["software"], "calibration": PurePath(job.calibration).name}
        parts["calibration"] = calibration_document(own)
    return document, parts


def _accepted(part: str, value: str, **others: str) -> None:
    option = {"name": "--history", "commit": "--commit", "branch": "--branch", "change_url": "--change-url"}
    labels = {**option, "visibility": "--visibility"}
    check(HistoryEntry, {"name": "a", part: value, **others}, labels=labels)

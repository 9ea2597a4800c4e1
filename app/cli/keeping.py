"""Has checks kept by a server: it judges each job itself, with the budget and the baseline that this command judged it with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.checks.change import Change, change_of
from app.checks.history.schemas import HistoryEntry
from app.cli.remote import check_known
from app.jobs.job import Job
from documents.checking import check
from documents.errors import InputError
from meshplan.client import Client, MeshplanError


@dataclass(frozen=True)
class ToKeep:
    """A job with what it was judged by; ``status`` is the verdict of this command. Without a ``job``, it is no more than read."""

    title: str
    document: Mapping[str, Any]
    job: Job | None
    status: str
    baseline: tuple[Mapping[str, Any], str] | None


class Keeper:
    """One server's histories. Making one sends nothing; ``InputError`` where an option cannot be used."""

    def __init__(self, url: str, history: str | None, change: Mapping[str, str | None], visibility: str | None) -> None:
        self._url = url.rstrip("/")
        try:
            self._client = Client(url, api_key=os.environ.get("MESHPLAN_API_KEY"))
        except MeshplanError as error:
            raise InputError(f"--server: {error.detail} {error.hint or ''}".rstrip()) from None
        self._history, self._shared = history, {} if visibility is None else {"visibility": visibility}
        _accepted("name", "a" if history is None else history, **self._shared)
        self.change: Change = change_of(change, os.environ, _accepted)

    def check_name(self, title: str) -> None:
        """``InputError`` where the job's own name is none of a history."""
        if self._history is None:
            _accepted("name", title)

    def kept(self, found: ToKeep, budget: Mapping[str, Any] | None, *, pin: bool) -> str:
        """What became of it, in a sentence; a history that cannot be written is no fault of the job's."""
        name, said = self._history or found.title, dict[str, Any]({**self.change.values, **self._shared})
        try:
            if found.job is not None:
                check_known(found.job)
            kept = self._client.keep_check(
                found.document if found.job is None else found.job.document,
                name,
                budget=budget,
                baseline=None if found.baseline is None else found.baseline[0],
                baseline_name=None if found.baseline is None else found.baseline[1][:200],
                pin=pin,
                taken_from=self.change.taken_from,
                **said,
            )
        except (MeshplanError, InputError) as error:
            why = error.detail if isinstance(error, MeshplanError) else str(error)
            return f"--server: {found.title} is not kept: {why.rstrip('.')}"
        where = f"--server: kept in the history {name!r} as {self._url}/checks/{kept['id']}: {self.change.sentence}"
        if kept["status"] == found.status:
            return where
        return f"{where}; the server, of version {kept['version']}, judges {kept['status']}, and this command {found.status}"


def _accepted(part: str, value: str, **others: str) -> None:
    option = {"name": "--history", "commit": "--commit", "branch": "--branch", "change_url": "--change-url"}
    labels = {**option, "visibility": "--visibility"}
    check(HistoryEntry, {"name": "a", part: value, **others}, labels=labels)

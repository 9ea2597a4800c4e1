"""The place of a finding in the user's files."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from urllib.parse import quote, unquote

from app.checks.schemas import CheckDocument
from documents.bounds import BASELINE_BYTES
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.reading import read_bytes


@dataclass(frozen=True)
class Place:
    uri: str
    line: int


@dataclass(frozen=True)
class Places:
    """The files of one check; None for a part that did not come from a file."""

    job: Path | None = None
    budget: Path | None = None
    baseline: Path | None = None
    name: str = "job"  # default name of a job that is not in a file

    @property
    def title(self) -> str:
        return str(self.job or self.name)

    def in_job(self, document: CheckDocument) -> tuple[str | None, int]:
        """Path and line of the job file for a finding: the first changed field, otherwise the strategy."""
        if self.job is None:
            return None, 1
        lines = _lines(self.job)
        changes = document.baseline.job_changes if document.baseline else []
        for field in (*(change.partition(":")[0] for change in changes), "strategy"):
            section, _, name = field.partition(".")
            start = _line(lines, section, 0, before="^")
            if start is not None:
                return unquote(_uri(self.job)), _line(lines, name.partition(".")[0], start) or start
        return unquote(_uri(self.job)), 1

    def of(self, item_id: str) -> Place | None:
        """The line of the budget that bounds the metric, otherwise the job's strategy, otherwise the top of a file."""
        kind, _, rest = item_id.partition(".")
        if kind in ("budget", "regression") and self.budget is not None:
            return _place(self.budget, rest.partition(".")[0], after="regression" if kind == "regression" else "")
        if kind == "regression" and self.baseline is not None:
            return Place(_uri(self.baseline), 1)
        return None if self.job is None else _place(self.job, "strategy")


def _place(path: Path, key: str, after: str = "") -> Place:
    lines = _lines(path)
    start = _line(lines, after, 0) or 0
    # Match only a top-level key; `regression` contains metrics with the same names.
    at_margin = None if after else _line(lines, key, 0, before="^")
    return Place(_uri(path), at_margin or _line(lines, key, start) or start or 1)


def _lines(path: Path) -> list[str]:
    try:
        return read_bytes(path, BASELINE_BYTES).decode(errors="replace").splitlines()
    except InputError:
        return []


def _line(lines: list[str], key: str, start: int, before: str = r"(?:^|[\s{,])") -> int | None:
    pattern = re.compile(rf"""{before}["']?{re.escape(key)}["']?\s*:""")
    found = (number for number in range(max(start, 1), len(lines) + 1) if key and pattern.search(lines[number - 1]))
    return next(found, None)


def _uri(path: PurePath) -> str:
    """Path relative to the working folder, as code scanning expects, if it is inside."""
    if path.is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except ValueError:
            return path.as_uri()
    return quote(path.as_posix())

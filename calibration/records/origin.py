"""Origin of a run: the source and date of publication. Splits use it; predictions never see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from documents.bounds import MAX_TEXT
from documents.late_methods import dataclass
from documents.sentences import Sentence

# Sources of ``Origin.published``; the first that gives a date counts. Documented in calibration/runs/README.md.
PUBLISHED_RULE = (
    ("source.date", Sentence("the day, month or year of the document as read; a month counts from its first day")),
    ("software", Sentence("when the software was released, where its version or name tells: no run is older")),
)
# Code hosts that mirror one another: one repository is one publication on all of them.
CODE_HOSTS = ("github.com", "gitee.com", "gitcode.com", "gitlab.com", "huggingface.co")
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?(?!\d)")
_MONTHS, _DAYS = 12, 31


@dataclass(frozen=True)
class Origin:
    """``publication`` is the document (repository or page, and title), ``published`` its date as a year (2024.5: July 2024).

    ``published`` is ``None`` if neither the source nor the software gives a date: a rolling origin does not use such a run.
    """

    publication: str = ""
    published: float | None = None


NOT_STATED = Origin()


def origin_of(source: object, software_year: float | None) -> Origin:
    """The origin that a row's ``source`` section states; unreadable parts count as not stated."""
    section: Mapping[str, object] = source if isinstance(source, dict) else {}
    url, title, date = (str(section.get(name) or "")[:MAX_TEXT] for name in ("url", "title", "date"))
    document = " | ".join(part for part in (_place(url), " ".join(title.lower().split())) if part)
    stated = _year(date)
    return Origin(document, software_year if stated is None else stated)


def _place(url: str) -> str:
    """``owner/name`` of a repository, otherwise host and path, in lower case; text after the address is a remark."""
    address = url.split(maxsplit=1)[0] if url.strip() else ""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, path = (parts.hostname or "").removeprefix("www."), parts.path.strip("/").lower()
    except ValueError:
        return address.lower()
    if host in CODE_HOSTS:
        return "/".join(path.removesuffix(".git").split("/")[:2])
    return "/".join(part for part in (host, path) if part)


def _year(date: str) -> float | None:
    found = _DATE.search(date)
    if not found:
        return None
    month, day = int(found[2] or 1), int(found[3] or 1)
    return round(int(found[1]) + (month - 1 + (day - 1) / _DAYS) / _MONTHS, 4)

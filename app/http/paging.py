"""Pages of a list: at most 200 items and an opaque cursor to the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, Protocol, TypeVar

from fastapi import Depends, Query
from pydantic import Field

from app.http.problems import ServiceError
from app.text.json_documents import Document
from documents.sentences import Sentence

Item = TypeVar("Item")
Row = TypeVar("Row", bound="_Numbered")
MAX_LIMIT = 200
MAX_POSITION = 2**53
_CURSOR = "^[A-Za-z0-9_-]{10,32}$"

Wanted = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00-\x1f]*$")]  # a value of a filter
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="items a page")]


class Listing(Document, Generic[Item]):
    items: list[Item]
    next_cursor: str | None = Field(description="the cursor of the next page; null on the last one")


class _Numbered(Protocol):
    """A row of a list that is paged by row number."""

    @property
    def number(self) -> int: ...


def listing(rows: Sequence[Row], limit: int, item: Callable[[Row], Item]) -> Listing[Item]:
    """A page of up to ``limit`` rows; a further row means that there is another page."""
    last = rows[limit - 1].number if len(rows) > limit else None
    return Listing(items=[item(row) for row in rows[:limit]], next_cursor=encoded(last))


def encoded(position: int | None) -> str | None:
    return None if position is None else base64.urlsafe_b64encode(f"after:{position}".encode()).decode().rstrip("=")


def _position(
    cursor: Annotated[
        str | None, Query(max_length=64, description="next_cursor of the page before", json_schema_extra={"pattern": _CURSOR})
    ] = None,
) -> int | None:
    if cursor is None:
        return None
    try:
        word, _, number = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").partition(":")
        position = int(number) if word == "after" and number.isdigit() else -1
    except (binascii.Error, UnicodeError, ValueError):
        position = -1
    if not 0 <= position <= MAX_POSITION:
        raise ServiceError(
            "invalid-input",
            Sentence("cursor: it is not from this list; use next_cursor of the previous page."),
            parameter="cursor",
            hint=Sentence("Leave cursor out to begin at the first page."),
        )
    return position


Position = Annotated[int | None, Depends(_position)]

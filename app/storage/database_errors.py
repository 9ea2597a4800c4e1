"""The reason why a database cannot be used, from its errors."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from documents.sentences import Sentence

__all__ = [
    "DATABASE_AWAY",
    "DatabaseHangsError",
    "PoolTimeout",
    "SilentConnectionError",
    "cause",
    "is_damage",
    "is_hang",
    "is_slow",
    "told",
]

_RETRY = Sentence("Repeat the request in a few seconds.")
_ABSENT = (Sentence("The database does not answer."), _RETRY)
_SLOW = (
    Sentence("The database takes too long over this request."),
    Sentence("Ask for less at a time: fewer words, more filters, a smaller page."),
)
_DAMAGED = (Sentence("The database is damaged."), Sentence("Stop the server and restore the database from a backup."))
_FULL = (Sentence("The disk of the database is full."), Sentence("Free space on it; studies then go on by themselves."))
_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_IOERR: (Sentence("The disk of the database fails."), Sentence("Look whether it is full, broken or gone.")),
    sqlite3.SQLITE_READONLY: (
        Sentence("The database cannot be written."),
        Sentence("Give the server the right to write the file and its folder."),
    ),
    sqlite3.SQLITE_INTERRUPT: _SLOW,
    sqlite3.SQLITE_BUSY: (Sentence("The database is locked by another process."), _RETRY),
}
# https://www.postgresql.org/docs/15/errcodes-appendix.html
_POSTGRESQL = {
    "53100": _FULL,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
    "25006": (Sentence("The database cannot be written."), Sentence("Name the primary server, not a standby.")),
    "57014": _SLOW,
    "53300": (Sentence("The database takes no more connections."), _RETRY),
}
_HANGS = ("StatementTimeoutError", "ConnectionTimeout")


class SilentConnectionError(PoolTimeout):
    """An open connection gives no answer."""


class DatabaseHangsError(OperationalError):
    """The database did not answer a moment ago, and the next query must wait."""

    def __init__(self) -> None:
        super().__init__(None, None, TimeoutError(Sentence("it did not answer a moment ago")))


DATABASE_AWAY = (InterfaceError, OperationalError, PoolTimeout)


def told(error: BaseException) -> tuple[str, str]:
    """A sentence with the reason, and a remedy."""
    said: Any = getattr(error, "orig", None)
    code = getattr(said, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF, _ABSENT)  # the other bits of an extended code are not needed
    return _POSTGRESQL.get(getattr(said, "sqlstate", None) or "", _ABSENT)


def cause(error: BaseException) -> str:
    """The database's own message on one line, without the statement and its values."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def is_hang(error: BaseException) -> bool:
    """Whether the database timed out without a message. (Callers that use up the connections do not show that.)"""
    return isinstance(error, SilentConnectionError) or type(getattr(error, "orig", None)).__name__ in _HANGS


def is_slow(error: BaseException) -> bool:
    """Whether the database itself gave up a statement after its time: it lives."""
    return told(error) is _SLOW


def is_damage(error: BaseException) -> bool:
    return isinstance(error, DatabaseError) and told(error) is _DAMAGED

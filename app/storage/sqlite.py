"""Connections to SQLite with time limits: SQLite itself has none for a statement that computes."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

_LOOK_EVERY = 20_000  # instructions of SQLite's virtual machine, a fraction of a millisecond
ASK_AGAIN_S = 0.005  # seconds until a writer asks again for the lock that another holds


class TimedConnection(sqlite3.Connection):
    """A connection that interrupts a statement after ``statement_s``; None never does."""

    statement_s: float | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._began_s = time.monotonic()
        self.set_progress_handler(self._is_late, _LOOK_EVERY)

    def begin_statement(self) -> None:
        """Count the time from now on."""
        self._began_s = time.monotonic()

    def begin_writing(self, wait_s: float) -> bool:
        """Begin a transaction as the only writer; False if that fails, or if another writes for longer than ``wait_s``.

        SQLite's own waiting asks ever more rarely, at last ten times a second. Writers that come and go would get in between.
        """
        ends_s = time.monotonic() + wait_s
        (own_ms,) = self.execute("pragma busy_timeout").fetchone()
        self.execute("pragma busy_timeout=0")
        try:
            while True:
                try:
                    self.execute("begin immediate")
                    return True
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > ends_s:
                        return False
                time.sleep(ASK_AGAIN_S)
        finally:
            self.execute(f"pragma busy_timeout={own_ms}")

    def _is_late(self) -> bool:
        return self.statement_s is not None and time.monotonic() - self._began_s > self.statement_s


class HintingCompiler(SQLiteCompiler):
    """Writes ``INDEXED BY`` where a query's hint says so. SQLAlchemy's own leaves hints out, without a word."""

    def get_from_hint_text(self, table: Any, text: str | None) -> str | None:
        return text

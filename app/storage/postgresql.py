"""Connections to PostgreSQL with time limits, since a hanging server still accepts data."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.errors import _WaitTimeout

from documents.sentences import Sentence


class StatementTimeoutError(psycopg.OperationalError):
    """The server took a statement and did not answer it in time; the connection is closed."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection that waits ``statement_s`` for an answer; None waits for ever."""

    statement_s: float | None = None
    has_hung = False

    def answers(self, patience_s: float) -> bool:
        """Whether the server answers a query outside a transaction. If not, close the connection and set ``has_hung``."""
        given, self.statement_s = (self.autocommit, self.statement_s), patience_s
        try:
            self.autocommit = True
            self.execute("select 1")
            self.autocommit, self.statement_s = given
        except psycopg.Error:
            return False
        return True

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None or self.statement_s is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.statement_s)
        except _WaitTimeout:
            self.has_hung = True
            self.pgconn.finish()
            raise StatementTimeoutError(Sentence("no answer within {:g} s", self.statement_s)) from None

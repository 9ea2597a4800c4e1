"""Backups: a whole database in one SQLite file, which can be restored into SQLite or PostgreSQL.

The file has the schema of the database, so that a backup before an upgrade can be read by every later version.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import JSON, Connection, MetaData, NullPool, create_engine, insert, select, text
from sqlalchemy.exc import DatabaseError

from app.storage.session import Database, StorageError, check_waits_not, parsed_url, translated
from app.storage.tables import PREFIX, VERSION_TABLE, IdempotencyRecord
from app.storage.upgrade import known_revision, lock_upgrades, make_file, upgrade_on
from documents.errors import cause_of
from documents.sentences import Sentence, word

STATEMENT_S = 600.0  # no caller waits, so statements have no time limit
_MANY = 200  # most rows in memory

Counts = dict[str, int]  # rows by table, without the prefix


def backup(url: str, path: Path) -> tuple[str, Counts]:
    """Write a snapshot of the database in use to a new file; return its schema version and its rows by table."""
    if path.exists():
        raise StorageError(Sentence("{}: exists already; give the name of a new file.", path))
    source_path = parsed_url(url).database if parsed_url(url).drivername == "sqlite" else None
    if source_path and not Path(source_path).exists():
        raise StorageError(Sentence("{} does not exist; there is nothing to back up.", source_path))
    partial = path.with_name(f"{path.name}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))  # the file contains digests of keys
        with translated(), Database(url, statement_s=STATEMENT_S) as database, _snapshot(database) as source:
            revision = known_revision(source)
            if revision is None:
                raise StorageError(Sentence("{} has no tables of meshplan; there is nothing to back up.", database.shown_url))
            with Database(f"sqlite:///{partial}") as file, file.connect() as target:
                upgrade_on(target, revision)
                counts = _copy(source, target)
        _make_whole(partial)
        partial.rename(path)
    except OSError as error:
        raise StorageError(Sentence("{}: the backup cannot be written ({}).", path, cause_of(error))) from None
    finally:
        for leftover in (partial, Path(f"{partial}-wal"), Path(f"{partial}-shm")):
            leftover.unlink(missing_ok=True)
    return revision, counts


def restore(path: Path, url: str) -> tuple[str, Counts]:
    """Fill an empty database from a backup and upgrade it, all or nothing; return its schema version and rows by table."""
    with _opened(path) as source:
        revision = known_revision(source)
        if revision is None:
            raise StorageError(Sentence("{}: no backup of meshplan's.", path))
        make_file(url)
        with Database(url, statement_s=STATEMENT_S) as database, database.connect() as target:
            lock_upgrades(target)
            _empty(target, database.shown_url)
            upgrade_on(target, revision)
            counts = _copy(source, target)
            return upgrade_on(target), counts


def _copy(source: Connection, target: Connection) -> Counts:
    tables, others = _tables(source), _tables(target).tables
    counts = {}
    for table in tables.sorted_tables:
        if table.name == VERSION_TABLE:
            continue
        number = 0
        rows = source.execute(select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_MANY))
        for part in rows.mappings().partitions():
            target.execute(insert(others[table.name]), [dict(row) for row in part])
            number += len(part)
        counts[table.name.removeprefix(PREFIX)] = number
    _number_on(target, _last_numbers(source))
    return counts


def _tables(connection: Connection) -> MetaData:
    """Our tables in this database, of any version."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name.startswith(PREFIX))
    for table in found.tables.values():
        for column in table.columns:
            if isinstance(column.type, JSON):
                column.type.none_as_null = True  # NULL is not JSON null, as in our own tables
    return found


def _empty(target: Connection, shown_url: str) -> None:
    """Drop our tables if they are empty; ``StorageError`` otherwise."""
    found = _tables(target)
    for table in found.sorted_tables:
        is_filled = table.name not in (VERSION_TABLE, IdempotencyRecord.__tablename__)  # probes write to it
        if is_filled and target.execute(select(table).limit(1)).first() is not None:
            name = word(table.name.removeprefix(PREFIX))
            raise StorageError(
                Sentence("{} holds {} already; name another database, without any, to restore into.", shown_url, name)
            )
    found.drop_all(target)


def _last_numbers(connection: Connection) -> Counts:
    """The last row number of each table, even if the row is deleted, since numbers are never reused."""
    if connection.dialect.name == "sqlite":
        return {name: int(number) for name, number in connection.execute(text("select name, seq from sqlite_sequence"))}
    found = {}
    for table, sequence in _sequences(connection):
        number, is_given = connection.execute(text(f"select last_value, is_called from {sequence}")).one()  # noqa: S608 - of the catalogue
        if is_given:
            found[table] = int(number)
    return found


def _number_on(connection: Connection, last: Counts) -> None:
    if connection.dialect.name == "sqlite":
        counted = "select name from sqlite_master where name = :name and sql like '%autoincrement%'"
        for name, number in last.items():
            if connection.execute(text(counted), {"name": name}).first() is not None:
                connection.execute(text("delete from sqlite_sequence where name = :name"), {"name": name})
                insertion = text("insert into sqlite_sequence (name, seq) values (:name, :number)")
                connection.execute(insertion, {"name": name, "number": number})
        return
    for table, sequence in _sequences(connection):
        (column,) = _tables(connection).tables[table].primary_key.columns
        most = connection.execute(select(column).order_by(column.desc()).limit(1)).scalar() or 0
        number = max(most, last.get(table, 0))
        if number:
            connection.execute(text("select setval(:sequence, :number)"), {"sequence": sequence, "number": number})


def _sequences(connection: Connection) -> list[tuple[str, str]]:
    """Tables of PostgreSQL with numbered rows, and their sequences."""
    found = []
    for table in _tables(connection).sorted_tables:
        columns = list(table.primary_key.columns)
        if len(columns) == 1 and columns[0].type.python_type is int:
            names = {"table": table.name, "column": columns[0].name}
            sequence = connection.execute(text("select pg_get_serial_sequence(:table, :column)"), names).scalar()
            if sequence:
                found.append((table.name, str(sequence)))
    return found


@contextmanager
def _snapshot(database: Database) -> Iterator[Connection]:
    """Make all reads see one snapshot."""
    options = {} if database.url.drivername == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with database.read() as session:
        yield session.connection(execution_options=options)


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    """Open a backup for reading only."""
    if not path.is_file():
        raise StorageError(Sentence("{}: no such file.", path))
    check_waits_not(path)

    def connect() -> Any:
        return sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            try:
                found = connection.execute(text("pragma quick_check(1)")).scalar_one()
            except DatabaseError as error:
                raise StorageError(Sentence("{}: no backup of meshplan's ({}).", path, error.orig)) from None
            if found != "ok":
                raise StorageError(Sentence("{}: the backup is damaged ({}).", path, found))
            yield connection
    finally:
        engine.dispose()


def _make_whole(path: Path) -> None:
    """Make the backup one file, written to disk."""
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=delete")
    connection.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())

"""Upgrade of a database to this version's schema, all or nothing."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from app.storage.session import Database, StorageError, check_waits_not, parsed_url, translated
from app.storage.tables import VERSION_TABLE
from documents.errors import cause_of
from documents.sentences import Sentence

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
_UPGRADE_LOCK = 0x6D657368  # any number, the same for all upgrades


def upgrade(url: str) -> str:
    """Upgrade and return the new revision. A database of a newer version is refused and left unchanged."""
    make_file(url)
    with Database(url) as database, database.connect() as connection:
        lock_upgrades(connection)
        return upgrade_on(connection)


def lock_upgrades(connection: Connection) -> None:
    """Lock out other upgrades until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite's write transaction already is a lock
        connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})


def upgrade_on(connection: Connection, revision: str = "head") -> str:
    """Upgrade to the given revision or this version's; return it."""
    config = _config()
    config.attributes["connection"] = connection
    _check_known(_revision(connection), config)
    command.upgrade(config, revision)
    return str(_revision(connection))


def known_revision(connection: Connection) -> str | None:
    """The database's revision, None without our tables; ``StorageError`` if a newer version wrote it."""
    revision = _revision(connection)
    _check_known(revision, _config())
    return revision


def check_current(database: Database) -> None:
    """Raise ``StorageError`` unless the database has exactly this version's schema."""
    path = database.url.database if database.url.drivername == "sqlite" else None
    if path and not Path(path).exists():
        raise StorageError(Sentence("{} does not exist; run `meshplan db upgrade`.", database.shown_url))
    config = _config()
    with translated(), database.read() as session:
        revision = _revision(session.connection())
    _check_known(revision, config)
    head = ScriptDirectory.from_config(config).get_current_head()
    if revision != head:
        found = Sentence("schema {}", revision) if revision else Sentence("no tables of meshplan")
        raise StorageError(
            Sentence("{} has {}, this version needs {}; run `meshplan db upgrade`.", database.shown_url, found, head)
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _check_known(revision: str | None, config: Config) -> None:
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in known:
        raise StorageError(
            Sentence(
                "The database has schema {}, which a newer meshplan wrote; this version knows up to "
                "{}. Nothing was changed: upgrade meshplan, or give it another database.",
                revision,
                scripts.get_current_head(),
            )
        )


def make_file(url: str) -> None:
    """Create a SQLite file and its folder, for their owner alone; ``StorageError`` if the folder cannot be made.

    A file that others can read, as earlier versions made it, is closed to them; a right of the file's group stays.
    """
    parsed = parsed_url(url)
    if parsed.drivername != "sqlite" or not parsed.database:
        return
    path = Path(parsed.database)
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folder contains jobs and digests of keys
    except OSError as error:
        raise StorageError(Sentence("{}: the database's folder cannot be made ({}).", folder, cause_of(error))) from None
    check_waits_not(path)
    with suppress(OSError):  # SQLite says in its own words what is wrong with the file
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))  # its log and index get the same mode
        for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if part.is_file() and (mode := stat.S_IMODE(part.stat().st_mode)) & stat.S_IRWXO:
                part.chmod(mode & ~stat.S_IRWXO)

"""Runs the migrations: on the connection that `meshplan db upgrade` hands over, or on the URL of the settings."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import Connection

from app.settings import load_settings
from app.storage.session import Database
from app.storage.tables import PREFIX, VERSION_TABLE, Table


def is_ours(thing: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """Leave the tables of others in the same database alone, such as Optuna's."""
    return kind != "table" or (name or "").startswith(PREFIX)


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Table.metadata,
        version_table=VERSION_TABLE,
        include_object=is_ours,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with Database(load_settings().url) as database, database.connect() as opened:
        run(opened)

"""``meshplan keys``: who may call the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE
from documents.errors import InputError, unknown_name

_DATES = ("created_at_s", "expires_at_s", "revoked_at_s", "last_used_at_s")
commands = typer.Typer(no_args_is_help=True, help="API keys of the server that uses this machine's settings.")


@contextmanager
def _database() -> Iterator[Any]:
    from app.settings import load_settings
    from app.storage.session import Database
    from app.storage.upgrade import upgrade

    url = load_settings().url
    upgrade(url)
    with Database(url) as database:
        yield database


@commands.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="whose key it is")],
    scope: Annotated[list[str] | None, typer.Option(help="read or write; repeat it for both (default both)")] = None,
    days: Annotated[int | None, typer.Option(help="days until it expires (default never)")] = None,
) -> int:
    """Makes a key and prints it, this once."""
    from app.http import keys

    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise InputError("NAME: give 1 to 100 printable characters.")
    if days is not None and not 1 <= days <= keys.MAX_DAYS:
        raise InputError(f"--days: {days} is not allowed; give an integer from 1 to {keys.MAX_DAYS:,}.")
    for word in scope or ():
        if word not in keys.SCOPES:
            raise unknown_name("--scope", word, keys.SCOPES, what="scope")
    chosen = tuple(word for word in keys.SCOPES if scope is None or word in scope)
    with _database() as database, database.write() as session:
        _, secret = keys.create_key(session, name, chosen, days)
    typer.echo(secret)
    return DONE


@commands.command("list")
def list_keys(as_json: Json = False) -> int:
    """Names, first characters, scopes and dates of all keys."""
    from app.http import keys
    from app.text import terminal

    with _database() as database, database.read() as session:
        rows = [{name: getattr(key, name) for name in ("name", "prefix", "scopes", *_DATES)} for key in keys.list_keys(session)]
    if as_json:
        terminal.write_json({"schema_version": 1, "items": rows})
        return DONE
    table = terminal.plain_table("name", "begins with", "may", "created", "expires", "revoked", "last used")
    for row in rows:
        table.add_row(row["name"], row["prefix"], ", ".join(row["scopes"]), *(_date(row[name]) for name in _DATES))
    terminal.output().print(table)
    return DONE


@commands.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="a key's name or first characters")]) -> int:
    """Ends a key at once."""
    from app.http import keys

    with _database() as database, database.write() as session:
        keys.revoke_key(session, name)
    return DONE


def _date(seconds: Any) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")

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
from documents.sentences import Sentence

_DATES = ("created_at_s", "expires_at_s", "revoked_at_s", "last_used_at_s", "rotated_at_s", "previous_until_s")
_SHOWN_DATES = _DATES[:-2]
_LIMITS = ("requests_a_minute", "max_unfinished", "max_stored")
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
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, write, metrics or admin (all of them); repeat it (default read and write)"),
    ] = None,
    days: Annotated[int | None, typer.Option(help="days until it expires (default never)")] = None,
    owner: Annotated[str | None, typer.Option(help="whose studies it submits and sees; several keys may share one")] = None,
    requests_a_minute: Annotated[int | None, typer.Option(help="how often it may ask (default: the server's)")] = None,
    max_unfinished: Annotated[
        int | None, typer.Option(help="studies of its owner's that may wait or run (default: the server's)")
    ] = None,
    max_stored: Annotated[int | None, typer.Option(help="studies that its owner may have (default: the server's)")] = None,
) -> int:
    """Makes a key and prints it, this once."""
    from app.http import audit, keys

    for flag, word in (("NAME", name), ("--owner", owner)):
        if word is not None and (not 1 <= len(word) <= 100 or not word.isprintable()):
            raise InputError(Sentence("{}: give 1 to 100 printable characters.", flag))
    _check_range("--days", days, keys.MAX_DAYS)
    _check_range("--requests-a-minute", requests_a_minute, keys.MAX_REQUESTS_A_MINUTE)
    _check_range("--max-unfinished", max_unfinished, keys.MAX_STUDIES)
    _check_range("--max-stored", max_stored, keys.MAX_STUDIES)
    for word in scope or ():
        if word not in keys.SCOPES:
            raise unknown_name("--scope", word, keys.SCOPES, what="scope")
    chosen = tuple(word for word in keys.SCOPES if word in (scope or keys.USUAL_SCOPES))
    limits = {"requests_a_minute": requests_a_minute, "max_unfinished": max_unfinished, "max_stored": max_stored}
    with _database() as database, database.write() as session:
        key, secret = keys.create_key(session, name, chosen, days, owner=owner, limits=limits)
        audit.record(session, audit.of_key(key, Sentence("keys create {}", name)))
    typer.echo(secret)
    return DONE


@commands.command("rotate")
def rotate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a key's name or first characters")],
    overlap_hours: Annotated[int, typer.Option(help="hours for which the secret before is still taken")] = 24,
    days: Annotated[int | None, typer.Option(help="days until it expires (default: as long as it had)")] = None,
) -> int:
    """Gives a key a new secret and prints it, this once; owner, scopes, limits and studies stay."""
    from app.http import audit, keys

    _check_range("--days", days, keys.MAX_DAYS)
    _check_range("--overlap-hours", overlap_hours, keys.MAX_OVERLAP_HOURS, least=0)
    with _database() as database, database.write() as session:
        key, secret = keys.rotate_key(session, name, overlap_hours, days)
        audit.record(session, audit.of_key(key, Sentence("keys rotate {}", key.name)))
    typer.echo(secret)
    return DONE


@commands.command("list")
def list_keys(as_json: Json = False) -> int:
    """Names, owners, first characters, scopes and dates of all keys; with --json their limits, too."""
    from app.http import keys
    from app.text import terminal

    with _database() as database, database.read() as session:
        shown = ("name", "owner", "prefix", "scopes", *_DATES, *_LIMITS)
        rows = [{name: getattr(key, name) for name in shown} for key in keys.list_keys(session)]
    if as_json:
        terminal.write_json({"schema_version": 1, "items": rows})
        return DONE
    table = terminal.plain_table("name", "owner", "begins with", "may", "created", "expires", "revoked", "last used")
    for row in rows:
        words = (row["name"], row["owner"], row["prefix"], ", ".join(row["scopes"]))
        table.add_row(*words, *(_date(row[name]) for name in _SHOWN_DATES))
    terminal.output().print(table)
    return DONE


@commands.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="a key's name or first characters")]) -> int:
    """Ends a key at once."""
    from app.http import audit, keys

    with _database() as database, database.write() as session:
        key = keys.revoke_key(session, name)
        audit.record(session, audit.of_key(key, Sentence("keys revoke {}", key.name)))
    return DONE


def _check_range(flag: str, value: int | None, most: int, *, least: int = 1) -> None:
    if value is not None and not least <= value <= most:
        raise InputError(Sentence("{}: {} is not allowed; give an integer from {} to {:,}.", flag, value, least, most))


def _date(seconds: Any) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")

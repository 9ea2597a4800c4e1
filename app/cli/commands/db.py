"""``meshplan db``: the database of studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE
from app.text.lines import tell
from documents.errors import InputError
from documents.sentences import Sentence, joined, word

MAX_DAYS = 3650

commands = typer.Typer(no_args_is_help=True, help="The database of studies.")


@commands.command()
def upgrade() -> int:
    """Brings the database to this version's schema; MESHPLAN_DATABASE_URL names it. One of a newer version is left alone."""
    from app.settings import load_settings
    from app.storage.session import parsed_url
    from app.storage.upgrade import upgrade as upgrade_database

    url = load_settings().url
    revision = upgrade_database(url)
    tell(Sentence("{} has schema {}.", parsed_url(url).render_as_string(hide_password=True), revision))
    return DONE


@commands.command()
def backup(path: Annotated[Path, typer.Argument(metavar="FILE", help="a new file")]) -> int:
    """Writes all of the database to a file, while it is used; `meshplan db restore` reads it into SQLite or PostgreSQL."""
    from app.settings import load_settings
    from app.storage.backup import backup as backup_database

    revision, counts = backup_database(load_settings().url, path)
    tell(Sentence("{} has schema {}: {}.", path, revision, _told(counts)))
    return DONE


@commands.command()
def restore(path: Annotated[Path, typer.Argument(metavar="FILE", help="what `meshplan db backup` wrote")]) -> int:
    """Fills the database of MESHPLAN_DATABASE_URL, which must hold nothing, from a backup of this or an earlier version."""
    from app.settings import load_settings
    from app.storage.backup import restore as restore_database
    from app.storage.session import parsed_url

    url = load_settings().url
    revision, counts = restore_database(path, url)
    tell(Sentence("{} has schema {}: {}.", parsed_url(url).render_as_string(hide_password=True), revision, _told(counts)))
    return DONE


@commands.command()
def prune(
    studies_days: Annotated[
        int | None,
        typer.Option(help="days after their end for which studies are kept, 0 for ever (default MESHPLAN_KEEP_STUDIES_DAYS)"),
    ] = None,
    audit_days: Annotated[
        int | None, typer.Option(help="days for which what keys did is kept (default MESHPLAN_KEEP_AUDIT_DAYS)")
    ] = None,
    checks_days: Annotated[
        int | None, typer.Option(help="days for which checks are kept, 0 for ever (default MESHPLAN_KEEP_CHECKS_DAYS)")
    ] = None,
    runs_days: Annotated[
        int | None,
        typer.Option(help="days for which measured runs and calibrations are kept, 0 for ever (default MESHPLAN_KEEP_RUNS_DAYS)"),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="archived studies and checks, too, which are kept otherwise")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be deleted, and delete nothing")] = False,
    as_json: Json = False,
) -> int:
    """Deletes old rows: finished studies, the audit log, answers kept for repetitions, checks, runs. Workers do so every hour."""
    from app.settings import load_settings
    from app.storage.session import Database
    from app.storage.upgrade import check_current
    from app.studies import pruning
    from app.text import terminal

    given = (
        ("--studies-days", studies_days, 0),
        ("--audit-days", audit_days, 1),
        ("--checks-days", checks_days, 0),
        ("--runs-days", runs_days, 0),
    )
    for flag, days, least in given:
        if days is not None and not least <= days <= MAX_DAYS:
            raise InputError(Sentence("{}: {} is not allowed; give an integer from {} to {:,}.", flag, days, least, MAX_DAYS))
    settings = load_settings()
    retention = pruning.Retention(
        settings.keep_studies_days if studies_days is None else studies_days,
        settings.keep_audit_days if audit_days is None else audit_days,
        archived,
        settings.keep_checks_days if checks_days is None else checks_days,
        settings.keep_runs_days if runs_days is None else runs_days,
    )
    with Database(settings.url, statement_s=pruning.STATEMENT_S) as database:
        check_current(database)
        pruned = (pruning.count if dry_run else pruning.prune)(database, retention)
    if as_json:
        terminal.write_json({"schema_version": 1, "dry_run": dry_run, **vars(pruned)})
        return DONE
    tell(Sentence("{} {}.", Sentence("Would delete") if dry_run else Sentence("Deleted"), _told(vars(pruned))))
    return DONE


def _told(counts: Mapping[str, int]) -> str:
    return joined(", ", (Sentence("{:,} {}", number, word(name)) for name, number in counts.items()))

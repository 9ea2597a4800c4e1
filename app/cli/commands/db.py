"""``meshplan db``: the database of studies."""

from __future__ import annotations

import typer

from app.exit_codes import DONE

commands = typer.Typer(no_args_is_help=True, help="The database of studies.")


@commands.callback()
def _group() -> None:
    """Keeps ``upgrade`` a command of its own beside those to come."""


@commands.command()
def upgrade() -> int:
    """Brings the database to this version's schema; MESHPLAN_DATABASE_URL names it. One of a newer version is left alone."""
    from app.settings import load_settings
    from app.storage.session import parsed_url
    from app.storage.upgrade import upgrade as upgrade_database

    url = load_settings().url
    revision = upgrade_database(url)
    typer.echo(f"{parsed_url(url).render_as_string(hide_password=True)} has schema {revision}.")
    return DONE

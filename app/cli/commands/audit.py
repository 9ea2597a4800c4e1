"""``meshplan audit``: actions of API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE
from documents.errors import InputError
from documents.sentences import Sentence

MAX_ENTRIES = 10_000


def audit(
    owner: Annotated[str | None, typer.Option(help="only what keys of this owner did")] = None,
    limit: Annotated[int, typer.Option(help="entries, newest first")] = 50,
    as_json: Json = False,
) -> int:
    """Prints what API keys changed and were refused, and what was done to keys, newest first."""
    if not 1 <= limit <= MAX_ENTRIES:
        raise InputError(Sentence("--limit: {} is not allowed; give an integer from 1 to {:,}.", limit, MAX_ENTRIES))

    from app.audit.endpoints import entry
    from app.http import audit as records
    from app.settings import load_settings
    from app.storage.session import Database
    from app.storage.upgrade import check_current
    from app.text import terminal
    from app.text.json_documents import plain

    with Database(load_settings().url) as database:
        check_current(database)
        with database.read() as session:
            entries = [plain(entry(record)) for record in records.list_records(session, owner, None, limit)]
    if as_json:
        terminal.write_json({"schema_version": 1, "items": entries})
        return DONE
    table = terminal.plain_table("at (UTC)", "owner", "key", "did", "answer", "from", "request")
    for row in entries:
        at = datetime.fromtimestamp(row["at_s"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        words = (row[name] for name in ("owner", "key_name", "action", "status", "address", "request_id"))
        table.add_row(at, *("" if word is None else str(word) for word in words))
    terminal.output().print(table)
    return DONE

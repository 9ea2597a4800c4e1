"""``meshplan doctor``: faults of this installation."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.cli.commands.serve import DEFAULT_PORT, MAX_PORT
from app.exit_codes import DONE, OUR_FAULT
from documents.errors import InputError
from documents.sentences import Sentence

STATES = {"ok": "ok", "warning": "warning", "error": "broken"}  # names of the findings for a reader


def doctor(
    port: Annotated[int, typer.Option(help="where `meshplan serve` is to listen")] = DEFAULT_PORT, as_json: Json = False
) -> int:
    """Looks at database, schema, disk, rights, clock, port, data files, keys and queue, and says what would help."""
    if not 1 <= port <= MAX_PORT:
        raise InputError(Sentence("--port: {} is not allowed; give an integer from 1 to {:,}.", port, MAX_PORT))

    from app.server.doctor import examine
    from app.settings import load_settings
    from app.text import terminal

    findings = examine(load_settings(), port)
    if as_json:
        terminal.write_json({"schema_version": 1, "items": [vars(finding) for finding in findings]})
    else:
        table = terminal.plain_table("", "checked", "found")
        for finding in findings:
            words = finding.detail if finding.hint is None else Sentence("{} {}", finding.detail, finding.hint)
            table.add_row(STATES[finding.state], finding.check, words)
        terminal.output().print(table)
    return OUR_FAULT if any(finding.state == "error" for finding in findings) else DONE

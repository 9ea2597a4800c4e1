"""``meshplan rl``: post-training by reinforcement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE

commands = typer.Typer(no_args_is_help=True, help="Post-training: steps of rollout and training, where they run, how stale.")


@commands.callback()
def _group() -> None:
    """Post-training by reinforcement."""


@commands.command("validate")
def validate(
    runs: Annotated[Path, typer.Argument(metavar="RUNS.jsonl", help="measured post-training runs, one JSON object a line")],
    rows: Annotated[bool, typer.Option("--rows", help="every record with its error, not only the errors by kind")] = False,
    as_json: Json = False,
) -> int:
    """Predicts every record of steps, rollouts, weight updates and inference, in file order, and reports the errors."""
    from app.rl.tables import print_validation
    from app.rl.validation import validation_document
    from app.text import terminal
    from calibration.post_training_records import read_post_training_records

    document = validation_document(read_post_training_records(runs))
    terminal.answer(document, as_json, lambda console: print_validation(console, document, with_rows=rows))
    return DONE

"""``meshplan sequences``: which sequence goes where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json, Overwrite
from app.exit_codes import DONE

commands = typer.Typer(no_args_is_help=True, help="Sequences of uneven samples: what their order costs and recovers.")


@commands.callback()
def _group() -> None:
    """Sequences of uneven samples."""


@commands.command("plan")
def plan(
    lengths: Annotated[
        Path, typer.Argument(metavar="LENGTHS", help="tokens of each sample, one a line; or a CSV of length,count; or JSON")
    ],
    job: Annotated[str, typer.Option("--job", help="job file with a strategy")],
    steps: Annotated[int | None, typer.Option(help="steps that are filled with samples (default 20)")] = None,
    seed: Annotated[int | None, typer.Option(help="of samples that are drawn (default 0)")] = None,
    write_order: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file for the order: the sequence at each place, step by step")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> int:
    """The imbalance of attention over replicas and micro batches, and what rearranging sequences recovers."""
    from app.calibrations.constants import own_calibrations
    from app.jobs.job import load_job
    from app.sequences.lengths import read_lengths
    from app.sequences.schemas import SequenceTerms
    from app.sequences.service import sequence_plan_document
    from app.sequences.tables import print_sequence_plan
    from app.text import terminal
    from app.text.files import check_new_file, save_text
    from app.text.json_documents import json_text
    from documents.checking import check

    check_new_file(write_order, "--write-order", [Path(job), lengths], overwrite=overwrite)
    terms = check(SequenceTerms, {"steps": steps, "seed": seed}, labels={"steps": "--steps", "seed": "--seed"})
    given = load_job(job, {}, {})
    document, found = sequence_plan_document(given, read_lengths(lengths), terms, own_calibrations(given))
    if write_order is not None:
        save_text(write_order, json_text({"step_replica_microbatch_sequence": found.order.tolist()}), "--write-order")
    terminal.answer(document, as_json, lambda console: print_sequence_plan(console, document))
    return DONE

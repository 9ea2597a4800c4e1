"""``meshplan validate``: predictions against measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Calibration, Json
from app.exit_codes import DONE


def validate(
    runs: Annotated[Path, typer.Argument(metavar="RUNS.jsonl", help="measured runs, one JSON object a line")],
    calibration: Calibration = None,
    rows: Annotated[bool, typer.Option("--rows", help="every run with its error, not only the worst")] = False,
    flags: Annotated[bool, typer.Option("--flags", help="of every run what became of the flags that its record lists")] = False,
    as_json: Json = False,
) -> int:
    """Predicts every run record, in file order, and reports the errors by category."""
    from app.calibrations.constants import constants_for, interval_of, read_own
    from app.calibrations.tables import print_validation
    from app.calibrations.validation import validation_document
    from app.text import terminal
    from calibration.records.training import read_run_records
    from calibration.validation.predictions import validate

    records = read_run_records(runs)
    own = read_own(calibration)
    report = validate(
        records,
        lambda workload: constants_for(workload, own),
        lambda record, step_time_s: interval_of(record, step_time_s, own),
    )
    terminal.answer(
        validation_document(report),
        as_json,
        lambda console: print_validation(console, report, with_rows=rows, with_flags=flags),
    )
    return DONE

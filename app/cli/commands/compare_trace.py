"""``meshplan compare-trace``: compares a measured step with the predicted step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE


def compare_trace(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="step_trace_time.csv, trace_view.json, a trace of torch.profiler, or one of `estimate --timeline`",
        ),
    ],
    job: Annotated[str, typer.Option("--job", help="job file with the strategy that was running")],
    rank: Annotated[
        int | None, typer.Option(min=0, help="of those in the trace (default: the one that computes longest)")
    ] = None,
    step: Annotated[int | None, typer.Option(min=0, help="of those in the trace (default: that of median time)")] = None,
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="adds the run with its median step time to a file for `meshplan calibrate`"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compares the parts of a profiled step with the predicted step, the largest difference first."""
    from app.calibrations.constants import own_calibrations
    from app.jobs.job import load_job
    from app.text import terminal
    from app.text.files import check_output
    from app.traces.records import add_record
    from app.traces.service import compared
    from app.traces.tables import print_comparison

    if records is not None:
        check_output(records, "--records", [trace, Path(job)])
    given = load_job(job, {}, {})
    document = compared(given, trace, own_calibrations(given), rank=rank, step=step)
    if records is not None:
        for sentence in add_record(records, given, document.trace, trace):
            terminal.messages().print(sentence, markup=False)
    terminal.answer(document, as_json, lambda console: print_comparison(console, document))
    return DONE

"""``meshplan tune``: a launch script's plan, the best one, and the lines to change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.exit_codes import DONE, NOTHING_FEASIBLE


def tune(
    script: Annotated[
        Path,
        typer.Argument(metavar="SCRIPT", help="a Bash script of Megatron-LM or MindSpeed-LLM, or a YAML file of MindFormers"),
    ],
    hardware: Annotated[str, typer.Option(help="profile name or file")],
    devices: Annotated[int | None, typer.Option(help="number of devices; default: what the script's launcher starts")] = None,
    target: Annotated[
        str | None, typer.Option(help="framework, or name@release; default: the one that knows most of the arguments")
    ] = None,
    vocab_size: options.VocabSize = None,
    values: options.Values = None,
    assume: options.Assume = None,
    lengths: options.Lengths = None,
    files: options.Files = None,
    time_limit_s: Annotated[float | None, typer.Option("--time-limit", help="seconds of the search (default 45)")] = None,
    output: Annotated[Path | None, typer.Option(help="file for the changed script")] = None,
    overwrite: options.Overwrite = False,
    calibration: options.Calibration = None,
    executor: options.Executor = None,
    details: options.Details = False,
    show: options.TuneSections = None,
    as_json: options.Json = False,
) -> int:
    """Reads a launch script, prices its plan, and shows what to change for the best. Nothing of the script is run."""
    from app.calibrations.constants import own_calibrations
    from app.cli.searching import searching
    from app.launch_scripts.files import load_script
    from app.launch_scripts.service import tune_document
    from app.launch_scripts.table import SECTIONS, print_tuning
    from app.text import terminal
    from app.text.files import check_new_file, save_text

    to_print = options.sections_shown(details, show, SECTIONS)
    check_new_file(output, "--output", [script, *(files or ())], overwrite=overwrite)
    sections: dict[str, dict[str, Any]] = {}
    if time_limit_s is not None:
        sections["search"] = {"time_limit_s": time_limit_s}
    if calibration is not None:
        sections["software"] = {"calibration": str(calibration.absolute())}
    reading = partial(
        load_script,
        script,
        hardware,
        devices=devices,
        target=target,
        values=values or (),
        files=files or (),
        vocab_size=vocab_size,
        assume=assume or (),
    )
    read = reading(sections=options.with_lengths(lengths, sections, lambda: reading(sections=sections).job))
    with searching(executor) as (on_progress, workers):
        document = tune_document(read, on_progress, own=own_calibrations(read.job), executor=workers)
    if output is not None:
        save_text(output, document.script, "--output")
    terminal.answer(document, as_json, lambda console: print_tuning(console, document, to_print, output))
    return DONE if document.best is not None else NOTHING_FEASIBLE

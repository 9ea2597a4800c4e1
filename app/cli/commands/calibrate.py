"""``meshplan calibrate``: the constants of a user's own cluster and software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE


def calibrate(
    runs: Annotated[Path, typer.Argument(metavar="RUNS.jsonl", help="your measured runs, one JSON object a line")],
    hardware: Annotated[str, typer.Option("--hardware", help="profile name or file of the cluster they ran on")],
    stack: Annotated[str, typer.Option("--stack", help="framework they ran with")],
    output: Annotated[
        Path | None, typer.Option("--output", help="file to write (default HARDWARE.STACK.calibration.json)")
    ] = None,
    as_json: Json = False,
) -> int:
    """Fits the model's constants to your own runs, and says how much they taught."""
    from app.calibrations.fit import fit_of_file, site_profile
    from app.calibrations.outcome import calibrate_document
    from app.calibrations.tables import print_outcome
    from app.text import terminal
    from calibration.files import write_calibration
    from documents.errors import InputError

    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise InputError(f"--output: {output} is {'a folder' if output.is_dir() else 'in no folder that exists'}; give a file.")

    path = output or Path(f"{site_profile(hardware).name}.{stack}.calibration.json")
    if output is None and path.exists():  # a name that the user did not give
        raise InputError(f"--output: missing, and {path} is here already; name the file to write, or to replace.")

    def show(iteration: int, median: float) -> None:
        terminal.messages().print(f"fit step {iteration + 1}: median error {median:.1%}", markup=False)

    outcome = fit_of_file(runs, hardware, stack, show)
    write_calibration(path, outcome.calibration)
    terminal.answer(calibrate_document(outcome, path), as_json, lambda console: print_outcome(console, outcome, path))
    return DONE

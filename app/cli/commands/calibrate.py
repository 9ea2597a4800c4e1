"""``meshplan calibrate``: the constants of a user's own cluster and software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json, Overwrite
from app.exit_codes import DONE
from documents.sentences import Sentence


def calibrate(
    runs: Annotated[
        Path | None, typer.Argument(metavar="RUNS.jsonl", help="your measured runs, one JSON object a line; not with --suggest")
    ] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="profile name or file of the cluster they ran on")] = None,
    stack: Annotated[str | None, typer.Option("--stack", help="framework they ran with")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="file to write (default HARDWARE.STACK.calibration.json)")
    ] = None,
    overwrite: Overwrite = False,
    suggest: Annotated[
        str | None,
        typer.Option("--suggest", metavar="JOB", help="no fit: the three cheapest runs that would teach most about this job"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fits the model's constants to your own runs, and says how much they taught."""
    from app.calibrations.fit import fit_of_file, site_profile
    from app.calibrations.outcome import calibrate_document
    from app.calibrations.tables import print_outcome
    from app.text import terminal
    from app.text.files import check_new_file
    from calibration.files.calibrations import write_calibration
    from documents.errors import InputError

    if suggest is not None:
        given = {"RUNS.jsonl": runs, "--hardware": hardware, "--stack": stack, "--output": output}
        for flag, value in {**given, "--overwrite": overwrite or None}.items():
            if value is not None:
                raise InputError(
                    Sentence("{}: given beside --suggest, which fits nothing and takes all from its job; leave it out.", flag)
                )
        return _suggest(suggest, as_json)
    if runs is None:
        raise InputError(
            Sentence("RUNS.jsonl: missing; give a file of your measured runs, or --suggest JOB, which says what to run.")
        )
    if hardware is None or stack is None:
        flag, what = ("--hardware", Sentence("a hardware profile")) if hardware is None else ("--stack", Sentence("a framework"))
        raise InputError(Sentence("{}: missing; give the name of {}.", flag, what))
    path = output or Path(f"{site_profile(hardware).name}.{stack}.calibration.json")
    check_new_file(path, "--output", [runs], overwrite=overwrite)

    def show(iteration: int, median: float) -> None:
        terminal.messages().print(Sentence("fit step {}: median error {:.1%}", iteration + 1, median), markup=False)

    outcome = fit_of_file(runs, hardware, stack, show)
    write_calibration(path, outcome.calibration)
    terminal.answer(calibrate_document(outcome, path), as_json, lambda console: print_outcome(console, outcome, path))
    return DONE


def _suggest(source: str, as_json: bool) -> int:
    from app.calibrations.constants import own_calibrations
    from app.calibrations.next_run_lines import print_next_runs
    from app.calibrations.next_runs import next_runs
    from app.calibrations.schemas import SuggestDocument
    from app.jobs.job import load_job
    from app.text import terminal
    from documents.errors import InfeasibleError, InfeasibleStrategyError, InputError
    from frameworks.legality import violations

    job = load_job(source, {}, {})
    if job.strategy is None:
        raise InputError(Sentence("--suggest: {} has no strategy; give a job that `meshplan estimate` prices.", source))
    broken = violations(job.workload, job.strategy)
    if broken:
        raise InfeasibleStrategyError(Sentence("strategy: {} ({}).", broken[0].sentence.rstrip("."), broken[0].rule))
    found = next_runs(job, job.strategy, own_calibrations(job))
    if not found:
        raise InfeasibleError(Sentence("no shorter run of this job is legal, fits, and costs a tenth of as many of its steps"))
    document = SuggestDocument(schema_version=1, runs=found)
    terminal.answer(document, as_json, lambda console: print_next_runs(console, found))
    return DONE

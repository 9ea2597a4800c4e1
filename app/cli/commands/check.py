"""``meshplan check``: a job held against a budget and a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.commands import options
from documents.errors import InfeasibleStrategyError, InputError, show, unknown_name

if TYPE_CHECKING:
    from app.checks.check import Checked
    from app.checks.formats.places import Places

NAMES = ("table", "json", "junit", "sarif", "markdown")
SUFFIXES = {".json": "json", ".xml": "junit", ".sarif": "sarif", ".md": "markdown", ".txt": "table"}
STANDARD_OUTPUT = "-"


def check(
    model: options.Model,
    budget: Annotated[Path | None, typer.Option(help="bounds on metrics: step_time_s: {max: 20}")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="an earlier answer: of check --write-baseline, estimate --json or search --json")
    ] = None,
    pin: Annotated[bool, typer.Option("--pin", help="price with the baseline's calibration and profile")] = False,
    write_baseline: Annotated[Path | None, typer.Option(help="file to write the job's price to, as a later baseline")] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", metavar="NAME", help=f"{', '.join(NAMES)}; may be repeated (default table)")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="FILE", help="file of the --format in the same place; - or none: standard output"),
    ] = None,
    calibration: options.Calibration = None,
) -> int:
    """Holds a job against a budget and a baseline: exits 0, 3 (broken), 4 (infeasible) or 5 (search cut)."""
    pairs = _pairs(formats or [], outputs or [])
    if budget is None and baseline is None and write_baseline is None:
        raise InputError("--budget: missing; give a budget, a baseline to compare with (--baseline), or --write-baseline.")
    if pin and calibration is not None:
        raise InputError("--pin: given beside --calibration; a pinned check prices with the baseline's.")
    from app.checks.formats.places import Places

    found = _checked(model, budget, baseline, pin, calibration)
    if write_baseline is not None:
        _write_baseline(write_baseline, found)
    job_file = Path(model)
    places = Places(job_file if job_file.is_file() else None, budget, baseline)
    _write(found, pairs, places)
    return found.document.exit_code


def _checked(model: str, budget: Path | None, baseline: Path | None, pin: bool, calibration: Path | None) -> Checked:
    from app.calibrations.constants import own_calibrations
    from app.checks.baseline import parse_baseline
    from app.checks.budget import Budget, parse_budget
    from app.checks.check import check_job, check_without_job
    from app.cli.progress import search_progress
    from app.jobs.job import load_job
    from documents.bounds import BASELINE_BYTES
    from documents.reading import Limits, read_document

    limits = Budget() if budget is None else parse_budget(read_document(budget), has_baseline=baseline is not None)
    before = None
    if baseline is not None:
        before = parse_baseline(read_document(baseline, Limits(BASELINE_BYTES), is_json=True), str(baseline))
    try:
        job = load_job(model, options.sections(options.CALIBRATION_FIELD, {"calibration": calibration}), {})
    except InfeasibleStrategyError as error:
        return check_without_job(str(error), limits, with_regression=before is not None)
    own = own_calibrations(job)
    with search_progress() as on_progress:
        return check_job(job, limits, baseline=before, pin=pin, own=own, on_progress=on_progress)


def _pairs(formats: list[str], outputs: list[str]) -> list[tuple[str, str]]:
    """Each format with its file; ``--format a,b`` is short for two."""
    names = [name.strip() for text in formats for name in text.split(",")] or ["table"]
    for name in names:
        if name not in NAMES:
            raise unknown_name("--format", name, NAMES, what="format")
    if len(outputs) > len(names):
        raise InputError(f"--output: {len(outputs)} files are given for {len(names)} formats; give a --format for each file.")
    files = [*outputs, *[STANDARD_OUTPUT] * (len(names) - len(outputs))]
    named = [file for file in files if file != STANDARD_OUTPUT]
    if len(set(named)) < len(named):
        raise InputError(f"--output: {show(max(named, key=named.count))} is given twice; give each format a file of its own.")
    for name, file in zip(names, files, strict=True):
        _check_suffix(name, file, names)
    return list(zip(names, files, strict=True))


def _check_suffix(name: str, file: str, names: list[str]) -> None:
    """The n-th file belongs to the n-th format; a name that ends in another of them shows that the order is not as meant."""
    meant = [SUFFIXES[suffix] for suffix in Path(file).suffixes if suffix in SUFFIXES]
    if meant and name not in meant and set(meant) & set(names):
        raise InputError(
            f"--output: {show(file)} is the file of --format {name}, which comes first in its place; give the formats in the "
            "order of their files, and - for standard output."
        )


def _write(found: Checked, pairs: list[tuple[str, str]], places: Places) -> None:
    import sys

    from app.checks.formats import FORMATS
    from app.checks.formats.table import show_table
    from app.text.files import save_text

    for name, file in pairs:
        if file != STANDARD_OUTPUT:
            save_text(Path(file), FORMATS[name](found.document, places), "--output")
        elif name == "table":
            show_table(found.document)
        else:
            sys.stdout.write(FORMATS[name](found.document, places))
            sys.stdout.flush()


def _write_baseline(path: Path, found: Checked) -> None:
    from app.checks.baseline import baseline_document
    from app.text.documents import json_text
    from app.text.files import save_text
    from app.text.terminal import messages

    if found.job is None or found.document.estimate is None:
        messages().print(f"--write-baseline: {path} was not written: there is no strategy to price.", markup=False)
        return
    save_text(path, json_text(baseline_document(found.job, found.document, found.own)), "--write-baseline")

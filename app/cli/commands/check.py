"""``meshplan check``: checks a job against a budget and a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands import options
from documents.errors import InfeasibleStrategyError, InputError, show, unknown_name
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.checks.check import Checked
    from app.checks.formats.report import Report
    from app.cli.check_upload import CheckUploader
    from app.jobs.job import Job

_KEPT = "History"
NAMES = ("table", "json", "junit", "sarif", "markdown", "annotations", "codequality")
MAX_JOBS = 64
SUFFIXES = {".json": "json", ".xml": "junit", ".sarif": "sarif", ".md": "markdown", ".txt": "table"}
STANDARD_OUTPUT = "-"
Before = tuple[Mapping[str, Any], str]  # a baseline's document, and its name


def check(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="presets' names, config.json or job files (YAML or JSON); several are one report"
        ),
    ],
    budget: Annotated[Path | None, typer.Option(help="bounds on metrics: step_time_s: {max: 20}")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="an earlier answer: of check --write-baseline, estimate --json or search --json")
    ] = None,
    baseline_ref: Annotated[
        str | None,
        typer.Option("--baseline-ref", metavar="REF", help="compare each job file with that of this branch or commit (git)"),
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
    comment: Annotated[
        str | None, typer.Option(metavar="SERVICE", help="write the report on the merge request of this CI job: github or gitlab")
    ] = None,
    calibration: options.Calibration = None,
    executor: options.Executor = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="have the check kept in this server's history (key in MESHPLAN_API_KEY)", rich_help_panel=_KEPT
        ),
    ] = None,
    history: Annotated[
        str | None, typer.Option(metavar="NAME", help="of the history (default: MODEL as it is given)", rich_help_panel=_KEPT)
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="that is checked (default: what a GitHub or GitLab job says)", rich_help_panel=_KEPT)
    ] = None,
    branch: Annotated[str | None, typer.Option(help="that it is on (default: the same)", rich_help_panel=_KEPT)] = None,
    change_url: Annotated[
        str | None, typer.Option(metavar="URL", help="of the merge request (default: the same)", rich_help_panel=_KEPT)
    ] = None,
    visibility: Annotated[
        str | None, typer.Option(help="private (default), link or public: what other keys see", rich_help_panel=_KEPT)
    ] = None,
) -> int:
    """Holds jobs against a budget and a baseline: exits 0, 3 (broken), 4 (infeasible) or 5 (search cut)."""
    pairs = _pairs(formats or [], outputs or [])
    given = {"--baseline": baseline, "--baseline-ref": baseline_ref, "--write-baseline": write_baseline}
    if budget is None and not any(value is not None for value in given.values()):
        raise InputError(
            Sentence("--budget: missing; give a budget, a baseline to compare with (--baseline), or --write-baseline.")
        )
    if pin and calibration is not None:
        raise InputError(Sentence("--pin: given beside --calibration; a pinned check prices with the baseline's."))
    _check_several(models, baseline, write_baseline)
    if baseline is not None and baseline_ref is not None:
        raise InputError(Sentence("--baseline-ref: given beside --baseline; a job is compared with one of them."))
    from app.checks.comment import SERVICES
    from app.checks.formats.places import Places
    from app.checks.formats.report import Report, worst
    from app.checks.outcome import EXIT_CODES

    if comment is not None and comment not in SERVICES:
        raise unknown_name("--comment", comment, SERVICES, what="service")
    change = {"commit": commit, "branch": branch, "change_url": change_url}
    from app.text.files import check_output

    read = [Path(name) for name in (*models, budget, baseline) if name is not None]
    written = [("--output", Path(file)) for _, file in pairs if file != STANDARD_OUTPUT]
    for flag, path in (*written, *([("--write-baseline", write_baseline)] if write_baseline is not None else [])):
        check_output(path, flag, read)
    uploader = _uploader(server, history, change, visibility, models)
    reports, kept = [], []
    for model in models:
        before = _baseline(model, baseline, baseline_ref, calibration, executor)
        compares = before is not None or baseline_ref is not None
        found, job = _checked(model, budget, before, pin, calibration, executor, compares=compares)
        if write_baseline is not None:
            _write_baseline(write_baseline, found)
        kept.append((model, job, found.document.status, before))
        job_file = Path(model)
        reports.append(Report(found.document, Places(job_file if job_file.is_file() else None, budget, baseline, model)))
    _write(reports, pairs)
    if comment is not None:
        _comment(comment, reports)
    if uploader is not None:
        _upload(uploader, kept, budget, pin=pin)
    return EXIT_CODES[worst(reports)]


def _uploader(
    server: str | None, history: str | None, change: dict[str, str | None], visibility: str | None, models: list[str]
) -> CheckUploader | None:
    """The client that stores checks on a server, or None; ``InputError`` for unusable options, before any pricing."""
    given = {"--history": history, **{f"--{name.replace('_', '-')}": value for name, value in change.items()}}
    alone = [flag for flag, value in {**given, "--visibility": visibility}.items() if value is not None]
    if server is None:
        if alone:
            raise InputError(Sentence("{}: given without --server, whose history it is for.", alone[0]))
        return None
    if history is not None and len(models) > 1:
        raise InputError(
            Sentence("--history: it names the history of one job, and {} are given; each has that of its file.", len(models))
        )
    from app.cli.check_upload import CheckUploader

    uploader = CheckUploader(server, history, change, visibility)
    for model in models:
        uploader.check_name(model)
    return uploader


def _upload(
    uploader: CheckUploader,
    found: Sequence[tuple[str, Job, str, Before | None]],
    budget: Path | None,
    *,
    pin: bool,
) -> None:
    """Store the checks; a failure is reported and does not change the exit code."""
    from app.cli.check_upload import CheckToUpload
    from documents.reading import read_document

    bounds = {} if budget is None else read_document(budget)
    for sentence in uploader.change.passed_over:
        _say(Sentence("--server: {}", sentence))
    for model, job, status, before in found:
        # A job that is new on its branch has no baseline.
        held = {name: bound for name, bound in bounds.items() if name != "regression" or before is not None}
        _say(uploader.upload(CheckToUpload(model, job, status, before), held or None, pin=pin))


def _check_several(models: list[str], baseline: Path | None, write_baseline: Path | None) -> None:
    if len(models) > MAX_JOBS:
        raise InputError(Sentence("MODEL: {} jobs are given, more than {}; check them in several runs.", len(models), MAX_JOBS))
    if len(set(models)) < len(models):
        raise InputError(Sentence("MODEL: {} is given twice.", show(max(models, key=models.count))))
    for flag, path in (("--baseline", baseline), ("--write-baseline", write_baseline)):
        if path is not None and len(models) > 1:
            raise InputError(
                Sentence(
                    "{}: it is the file of one job, and {} are given; use --baseline-ref, or several runs.", flag, len(models)
                )
            )


def _baseline(
    model: str, file: Path | None, reference: str | None, calibration: Path | None, executor: str | None
) -> Before | None:
    from documents.bounds import BASELINE_BYTES
    from documents.reading import Limits, read_document

    if file is not None:
        return read_document(file, Limits(BASELINE_BYTES), is_json=True), str(file)
    if reference is None:
        return None
    from app.checks.target_branch import job_at

    path = Path(model)
    if not path.is_file():
        raise InputError(Sentence("--baseline-ref: {} is no file, so that no branch has another version of it.", show(model)))
    with job_at(reference, path) as earlier:
        if earlier is None:
            _say(Sentence("--baseline-ref: {} has no {}: it is held against the budget alone", reference, model))
            return None
        if earlier.former_name is not None:
            _say(Sentence("--baseline-ref: {} is {} in {}, renamed since", model, earlier.former_name, reference))
        return _priced_at(earlier.path, f"{reference}:{earlier.former_name or model}", calibration, executor)


def _priced_at(path: Path, name: str, calibration: Path | None, executor: str | None) -> Before | None:
    """The job of another commit, priced today; None if it could not run there either."""
    import json

    from app.calibrations.constants import own_calibrations
    from app.checks.baseline import baseline_document
    from app.checks.budget import Budget
    from app.checks.check import check_job
    from app.cli.searching import searching
    from app.jobs.job import load_job
    from app.text.json_documents import json_text

    try:
        job = load_job(str(path), options.sections(options.CALIBRATION_FIELD, {"calibration": calibration}), {})
        own = own_calibrations(job)
        with searching(executor) as (on_progress, workers):
            found = check_job(job, Budget(), own=own, on_progress=on_progress, executor=workers)
    except InputError as error:
        why = str(error).removeprefix(f"{path}: ").rstrip(".")
        _say(Sentence("--baseline-ref: {} cannot be priced ({}): the job is held against the budget alone", name, why))
        return None
    if found.job is None or found.document.estimate is None:
        _say(Sentence("--baseline-ref: {} had no strategy that runs: the job is held against the budget alone", name))
        return None
    return json.loads(json_text(baseline_document(found.job, found.document, found.own))), name


def _say(sentence: str) -> None:
    from app.text.terminal import messages

    messages().print(Sentence("{}.", sentence), markup=False)


def _checked(
    model: str,
    budget: Path | None,
    before: Before | None,
    pin: bool,
    calibration: Path | None,
    executor: str | None,
    *,
    compares: bool,
) -> tuple[Checked, Job]:
    from dataclasses import replace

    from app.calibrations.constants import own_calibrations
    from app.checks.baseline import parse_baseline
    from app.checks.budget import Budget, parse_budget
    from app.checks.check import check_job, check_without_job
    from app.cli.searching import searching
    from app.jobs.job import job_document, parse_job
    from documents.reading import read_document

    baseline = None if before is None else parse_baseline(*before)
    limits = Budget() if budget is None else parse_budget(read_document(budget), has_baseline=compares)
    document, folder = job_document(model, options.sections(options.CALIBRATION_FIELD, {"calibration": calibration}))
    try:
        job = parse_job(document, folder=folder)
    except InfeasibleStrategyError as error:
        job = parse_job({**document, "strategy": None}, folder=folder)
        job = replace(job, document={**job.document, "strategy": document["strategy"]})
        return check_without_job(str(error), limits, with_regression=before is not None), job
    own = own_calibrations(job)
    with searching(executor) as (on_progress, workers):
        return check_job(job, limits, baseline=baseline, pin=pin, own=own, on_progress=on_progress, executor=workers), job


def _comment(service: str, reports: Sequence[Report]) -> None:
    """Write the comment; a failure is reported and does not change the exit code."""
    import os

    from app.checks.comment import CommentError, comment
    from app.checks.formats import FORMATS

    try:
        done = comment(service, FORMATS["markdown"](reports), [report.places.title for report in reports], os.environ)
    except CommentError as error:
        _say(Sentence("--comment: nothing was written on the merge request: {}", error))
    else:
        _say(Sentence("The comment on the merge request was {}", done))


def _pairs(formats: list[str], outputs: list[str]) -> list[tuple[str, str]]:
    """Formats with their files; ``--format a,b`` stands for two formats."""
    names = [name.strip() for text in formats for name in text.split(",")] or ["table"]
    for name in names:
        if name not in NAMES:
            raise unknown_name("--format", name, NAMES, what="format")
    if len(outputs) > len(names):
        raise InputError(
            Sentence("--output: {} files are given for {} formats; give a --format for each file.", len(outputs), len(names))
        )
    files = [*outputs, *[STANDARD_OUTPUT] * (len(names) - len(outputs))]
    named = [file for file in files if file != STANDARD_OUTPUT]
    if len(set(named)) < len(named):
        raise InputError(
            Sentence("--output: {} is given twice; give each format a file of its own.", show(max(named, key=named.count)))
        )
    for name, file in zip(names, files, strict=True):
        _check_suffix(name, file, names)
    return list(zip(names, files, strict=True))


def _check_suffix(name: str, file: str, names: list[str]) -> None:
    """Refuse a file whose ending belongs to another format: the n-th file belongs to the n-th format."""
    meant = [SUFFIXES[suffix] for suffix in Path(file).suffixes if suffix in SUFFIXES]
    if meant and name not in meant and set(meant) & set(names):
        raise InputError(
            Sentence(
                "--output: {} is the file of --format {}, which comes first in its place; give the formats in the "
                "order of their files, and - for standard output.",
                show(file),
                name,
            )
        )


def _write(reports: Sequence[Report], pairs: list[tuple[str, str]]) -> None:
    from app.checks.formats import FORMATS
    from app.checks.formats.table import show_table
    from app.text.files import save_text
    from app.text.terminal import write_text

    for name, file in pairs:
        if file != STANDARD_OUTPUT:
            save_text(Path(file), FORMATS[name](reports), "--output")
        elif name == "table":
            show_table(reports)
        else:
            write_text(FORMATS[name](reports))


def _write_baseline(path: Path, found: Checked) -> None:
    from app.checks.baseline import baseline_document
    from app.text.files import save_text
    from app.text.json_documents import json_text

    if found.job is None or found.document.estimate is None:
        _say(Sentence("--write-baseline: {} was not written: there is no strategy to price", path))
        return
    save_text(path, json_text(baseline_document(found.job, found.document, found.own)), "--write-baseline")

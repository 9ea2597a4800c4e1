"""``meshplan sweep``: one job at many sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.cli.commands.options import JOB_FIELDS
from app.cli.commands.search import LIMITS
from app.exit_codes import DONE, NOTHING_FEASIBLE, SEARCH_CUT
from app.language.choice import spoken
from documents.errors import InputError, show
from documents.sentences import Sentence, word

_TRIED = "Sweep"


def _axis(text: str) -> Any:
    return Annotated[str | None, typer.Option(help=text, rich_help_panel=_TRIED, metavar="VALUES")]


# In place of the flags of one job: lists of values.
AXES = {
    "devices": _axis(Sentence("counts (512,1024), a range that doubles (512..8192), or one with a step (512..4096:128)")),
    "global_batch_size": _axis(Sentence("sequences in a step, a list")),
    "seq_length": _axis(Sentence("tokens of a sequence, a list")),
    "hardware": _axis(Sentence("profile names or files, a list")),
    "software": _axis(Sentence("stacks, a list")),
}
_AXIS_FIELDS = {name: JOB_FIELDS[name] for name in AXES if name in JOB_FIELDS} | {"software": ("software", "stack")}
_OF_SEARCH = ("objective", "deadline_days", "budget_usd", "time_limit_s")
_FIELDS = {
    **{name: field for name, field in JOB_FIELDS.items() if name not in AXES},
    **{name: ("search", name) for name in (*_OF_SEARCH, *LIMITS)},
    "price_per_device_hour": ("delivery", "price_per_device_hour_usd"),
}
_FLAGS = {"budget_usd": "--budget", "time_limit_s": "--time-limit"}  # other flags are named like their field


@options.with_job_options({**AXES, **LIMITS})
def sweep(
    context: typer.Context,
    model: options.Model,
    scale_batch: Annotated[
        bool | None,
        typer.Option("--scale-batch", help="the batch is that of the smallest count and grows with it", rich_help_panel=_TRIED),
    ] = None,
    devices_at_most: Annotated[
        int | None, typer.Option(help="leave larger counts out; alone: this count and its halves", rich_help_panel=_TRIED)
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="what the best point has: step_time (default), cost, energy, device_hours, ...")
    ] = None,
    deadline_days: Annotated[float | None, typer.Option(help="days that the tokens may take")] = None,
    deadline_confidence: Annotated[
        float | None, typer.Option(help="with which the deadline must be met, such as 0.8 (default: the days as predicted)")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option("--budget", help="USD that they may cost")] = None,
    price_per_device_hour: Annotated[
        float | None, typer.Option(help="USD; default: what the profile's price of purchase makes")
    ] = None,
    time_limit_s: Annotated[
        float | None, typer.Option("--time-limit", help="seconds, of all points together; a sweep that is cut exits 5")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="CSV file, a line for each point")] = None,
    overwrite: options.Overwrite = False,
    server: options.Server = None,
    name: options.Name = None,
    tag: options.Tag = None,
    note: options.Note = None,
    executor: options.Executor = None,
    details: options.Details = False,
    as_json: options.Json = False,
) -> int:
    """The best plan at each of many sizes: how the job scales, when it is done, and what it costs."""
    if executor is not None and server is not None:
        raise InputError(Sentence("--executor: given beside --server, which works by itself; give one of the two."))
    study_labels = options.study_labels(server, name, tag, note)
    given = {parameter: value for parameter, value in context.params.items() if value is not None}
    for limited in LIMITS:
        if limited in given:
            given[limited] = options.limit(given[limited], limited)
    sections = options.sections(_FIELDS, given)
    labels = options.labels(_FIELDS, given)
    labels |= {Sentence("{}.{}", _FIELDS[name][0], _FIELDS[name][1]): flag for name, flag in _FLAGS.items() if name in given}
    tried = {axis: _values(given[axis], axis) for axis in AXES if axis in given}
    tried |= {each: given[each] for each in ("scale_batch", "devices_at_most", "deadline_confidence") if each in given}
    labels |= options.labels({axis: _AXIS_FIELDS[axis] for axis in AXES if axis in given or axis != "software"}, given)
    labels |= {f"sweep.{each}": options.flag(each) for each in tried}
    if tried:
        sections["sweep"] = tried

    from app.answers.executors import opened
    from app.calibrations.constants import own_calibrations
    from app.cli.progress import sweep_progress
    from app.cli.searching import interruptible
    from app.jobs.job import job_document
    from app.sweeps.points import Source
    from app.sweeps.service import sweep_document
    from app.sweeps.tables import csv_text, print_sweep
    from app.text import terminal
    from app.text.files import check_new_file, save_text

    check_new_file(output, "--output", [Path(model)], overwrite=overwrite)
    document, folder = job_document(model, sections)
    source = Source(document, folder, labels)
    if server is None:
        with interruptible() as heeding, opened(executor, "--executor") as workers, sweep_progress() as show:
            found = sweep_document(source, own_calibrations, on_progress=heeding(show), executor=workers)
    else:
        from app.cli.remote import remote_sweep_document

        with sweep_progress() as on_progress:
            found = remote_sweep_document(source, server, on_progress, study_labels, "en" if as_json else spoken())
    terminal.answer(found, as_json, lambda console: print_sweep(console, found, details=details))
    if output is not None:
        save_text(output, csv_text(found), "--output")
    if found.stopped_by:
        if as_json or not sys.stdout.isatty():
            cut = word(found.stopped_by)
            terminal.messages().print(
                Sentence("Cut by {} after {} of {} points.", cut, found.num_done, found.num_points), markup=False
            )
        return SEARCH_CUT
    return DONE if found.best is not None else NOTHING_FEASIBLE


def _values(text: str, name: str) -> Any:
    if name in ("hardware", "software"):
        return [word.strip() for word in text.split(",") if word.strip()]
    text, colon, step = text.partition(":") if name == "devices" else (text, "", "")
    value = options.limit(text, name)
    is_range = isinstance(value, dict)
    if is_range and colon:
        value["step"] = options.limit(step, name)
    if (is_range and (name != "devices" or not {"min", "max"} <= value.keys())) or (colon and not is_range):
        ranges = Sentence(", or a range with both ends such as 512..8192") if name == "devices" else ""
        raise InputError(
            Sentence("{}: {} is not allowed; give a list such as 512,1024{}.", options.flag(name), show(text), ranges)
        )
    return value

"""``meshplan estimate``: time and memory of one strategy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands import options
from app.cli.commands.given_job import OfScript, given_job, without_ignored
from app.cli.commands.options import JOB_FIELDS
from app.exit_codes import DONE
from documents.errors import InputError
from documents.sentences import Sentence

if TYPE_CHECKING:
    from rich.console import Console

    from cost_models.constants import Constants
    from cost_models.shapes.strategy import ParallelStrategy
    from cost_models.shapes.workload import Workload

_LAYOUT = "Strategy"


def _flag(kind: Any, text: str | None = None) -> Any:
    return Annotated[kind, typer.Option(help=text, rich_help_panel=_LAYOUT)]


_DEGREE, _CHOICE = _flag(int | None), _flag(str | None)
STRATEGY = {
    **dict.fromkeys(("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch_size"), _DEGREE),
    "cp_algo": _CHOICE,
    "ulysses_degree": _DEGREE,
    "sequence_parallel": _flag(bool | None),
    "schedule": _flag(str | None, Sentence("1f1b, interleaved-1f1b, gpipe, zb1p, zb2p, zbv, dualpipe, dualpipev")),
    "microbatch_group_size_per_vp_stage": _DEGREE,
    "mtp_before_head": _flag(int | None, Sentence("virtual stages from that of the MTP modules to that of the head")),
    "zero_stage": _flag(int | None, Sentence("0, 1 (the distributed optimizer, which is usual), 2 or 3")),
    "moe_dispatcher": _CHOICE,
    "recompute": _flag(str | None, Sentence("none, full, full:K, block:K, or modules joined by '+'")),
    "features": _flag(str | None, Sentence("all switches that are on, comma-separated")),
}
STRATEGY_FIELDS = {name: ("strategy", name) for name in STRATEGY}


def job_of_flags(context: typer.Context) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The flags of a job and its strategy as parts of a job, and the user's names for its fields."""
    given = dict(context.params)
    if given["features"] is not None:
        given["features"] = [name.strip() for name in given["features"].split(",") if name.strip()]
    fields = {**JOB_FIELDS, **STRATEGY_FIELDS}
    return options.sections(fields, given), options.labels(fields, given)


@options.with_job_options(STRATEGY)
def estimate(
    context: typer.Context,
    model: options.Model,
    switch: Annotated[
        list[str] | None,
        typer.Option(help="one switch beside the usual ones, as in mc2=false", rich_help_panel=_LAYOUT, metavar="NAME=BOOL"),
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="also show what the simulated step waits for and hides")] = False,
    timeline: Annotated[
        Path | None, typer.Option(help="trace of the simulated step, for Perfetto and MindStudio Insight; implies --simulate")
    ] = None,
    overwrite: options.Overwrite = False,
    memory_plan: Annotated[
        bool, typer.Option("--memory-plan", help="also choose recompute and swap tensor by tensor, for wider micro batches too")
    ] = False,
    vocab_size: options.VocabSize = None,
    values: options.Values = None,
    assume: options.Assume = None,
    lengths: options.Lengths = None,
    files: options.Files = None,
    details: options.Details = False,
    show: options.EstimateSections = None,
    as_json: options.Json = False,
) -> int:
    """Step time and memory of one strategy, to the last part; MODEL may also be a launch script."""
    from app.text import terminal
    from app.text.files import check_new_file

    check_new_file(timeline, "--timeline", [Path(model)], overwrite=overwrite)
    sections, labels = job_of_flags(context)
    if switch:
        sections.setdefault("strategy", {})["switches"] = _switches(switch)
    job, read = given_job(model, sections, labels, lengths, OfScript(values, files, vocab_size, assume))
    strategy = job.strategy
    if strategy is None:
        raise InputError(Sentence("strategy: missing; give it in the job file, or flags such as --tp 8 --pp 4."))

    from app.answers.parts import PARTS  # a refused flag does not wait for these
    from app.answers.price import estimate_document, is_far
    from app.answers.simulation import can_simulate
    from app.answers.tables.estimate import SECTIONS, print_estimate
    from app.calibrations.constants import constants_for, own_calibrations
    from app.calibrations.next_runs import has_next_run

    asked = (*(["simulation"] if simulate else []), *(["tensors"] if memory_plan else []))
    to_print = options.sections_shown(details, show, SECTIONS, asked)
    own = own_calibrations(job)
    shown_by = {"software": "software", "next_runs": "runs"}  # sections without which these parts are not printed
    explained = [part for part in PARTS if as_json or part not in shown_by or shown_by[part] in to_print]
    is_asked = simulate or timeline is not None
    is_played = is_asked or can_simulate(job.workload, strategy)
    document = estimate_document(job, strategy, own, simulated=is_played, replayed=is_asked, explained=explained)
    if memory_plan:
        from app.answers.memory_plan import memory_plan_document

        document = document.model_copy(update={"memory_plan": memory_plan_document(job, strategy, own)})
    if timeline is not None:
        _save_timeline(timeline, job.workload, strategy, constants_for(job.workload, own))
    document = without_ignored(document, read)

    def show_document(console: Console) -> None:
        runs = document.next_runs
        known = (has_next_run(job, strategy, own) if runs is None else bool(runs)) if is_far(document, strategy) else None
        print_estimate(console, document, to_print, is_script=read is not None, has_next_run=known)

    terminal.answer(document, as_json, show_document)
    return DONE


def _switches(given: list[str]) -> dict[str, bool | str]:
    """Values of switches; a word other than true or false is kept, and the check of the job refuses it."""
    words = {"true": True, "false": False}
    named = options.assignments(given, Sentence("true or false, as in mc2=false"))
    return {name: words.get(word, word) for name, word in named.items()}


def _save_timeline(path: Path, workload: Workload, strategy: ParallelStrategy, constants: Constants) -> None:
    from app.answers.simulation import play
    from app.answers.trace import trace_text
    from app.text.files import save_text
    from app.text.terminal import messages

    try:
        played = play(workload, strategy, constants)
    except ValueError as error:
        raise InputError(Sentence("--timeline: {}; give a smaller training.global_batch_size to see its shape.", error)) from None
    save_text(path, trace_text(played), "--timeline")
    messages().print(
        Sentence("{:,} bars in {}; open it with ui.perfetto.dev or MindStudio Insight.", len(played.timeline.bars), path),
        markup=False,
    )

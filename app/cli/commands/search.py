"""``meshplan search``: ranked plans."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.cli.commands.options import JOB_FIELDS
from app.exit_codes import DONE, NOTHING_FEASIBLE, SEARCH_CUT
from app.language.choice import spoken
from documents.errors import InputError
from documents.sentences import Sentence, word

_LIMITS = Sentence("Limits: one value, a list (1,2,4) or a range (2..8)")
_FLAGS = {"moe_dispatcher": ("--moe-dispatcher", "--dispatcher")}  # other flags are named like their field
LIMITS: dict[str, Any] = {
    name: Annotated[str | None, typer.Option(*_FLAGS.get(name, ()), rich_help_panel=_LIMITS, metavar="VALUES")]
    for name in (
        "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size", "sequence_parallel", "cp_algo", "schedule",
        "microbatch_group_size_per_vp_stage", "moe_dispatcher", "recompute", "zero_stage",
    )
}  # fmt: skip
SETTINGS = (
    "objective", "deadline_days", "budget_usd", "top", "time_limit_s", "sampler", "max_trials", "seed", "refine", "refine_front",
    "by_tensor",
)  # fmt: skip
SEARCH_FIELDS = {**{name: ("search", name) for name in (*SETTINGS, *LIMITS)}, "devices_at_most": ("cluster", "num_devices")}
PRICE = {"price_per_device_hour": ("delivery", "price_per_device_hour_usd")}


@options.with_job_options(LIMITS)
def search(
    context: typer.Context,
    model: options.Model,
    devices_at_most: Annotated[
        int | None,
        typer.Option(help="in place of --devices: the largest count up to this that can be filled", rich_help_panel="Job"),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="step_time (default), memory_headroom, device_hours, delivered, cost, energy or robust; several between commas: "
            "the first ranks, and the answer has their Pareto front"
        ),
    ] = None,
    deadline_days: Annotated[float | None, typer.Option(help="days that --train-tokens may take")] = None,
    budget_usd: Annotated[float | None, typer.Option("--budget", help="USD that --train-tokens may cost")] = None,
    price_per_device_hour: Annotated[
        float | None, typer.Option(help="USD; default: what the profile's price of purchase makes")
    ] = None,
    top: Annotated[int | None, typer.Option(help="plans to report (default 20)")] = None,
    time_limit_s: Annotated[
        float | None, typer.Option("--time-limit", help="seconds (default 45); a search that is cut exits 5")
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="exhaustive (default), or tpe, nsga2, random: try some of the space only")
    ] = None,
    max_trials: Annotated[int | None, typer.Option(help="strategies that a sampler tries (default 1000)")] = None,
    refine: Annotated[
        int | None, typer.Option(help="trials around the best plans by Optuna, outside of the proof (default 0: none)")
    ] = None,
    refine_front: Annotated[
        bool | None,
        typer.Option("--refine-front", help="refine for step time and memory at once, and list what no plan beats in both"),
    ] = None,
    by_tensor: Annotated[
        bool | None,
        typer.Option("--by-tensor", help="also by recompute and swap of single tensors"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="of a sampler or a refinement (default 0)")] = None,
    switch: Annotated[
        list[str] | None,
        typer.Option(
            help="a feature and its values, as in swap_optimizer=true,false", rich_help_panel=_LIMITS, metavar="NAME=VALUES"
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="also try it: a switch, a schedule, a recompute module", rich_help_panel=_LIMITS, metavar="NAMES"),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            help="never try it: a switch, a schedule, a dispatcher, a cp algorithm, a recompute module",
            rich_help_panel=_LIMITS,
            metavar="NAMES",
        ),
    ] = None,
    lengths: options.Lengths = None,
    save_dir: Annotated[Path | None, typer.Option(help="folder for the report, the job and the launch arguments")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the answer that --save-dir holds")] = False,
    server: options.Server = None,
    name: options.Name = None,
    tag: options.Tag = None,
    note: options.Note = None,
    executor: options.Executor = None,
    details: options.Details = False,
    show: options.SearchSections = None,
    as_json: options.Json = False,
) -> int:
    """Scores every legal layout of the job and ranks the best."""
    from app.text.files import refuse_idle_overwrite

    if save_dir is None:
        refuse_idle_overwrite("--save-dir", overwrite=overwrite)
    if executor is not None and server is not None:
        raise InputError(options.EXECUTOR_AND_SERVER)
    study_labels = options.study_labels(server, name, tag, note)
    given = _parsed(context.params)
    fields = {**JOB_FIELDS, **SEARCH_FIELDS, **PRICE}
    sections = options.sections(fields, given)
    for name, values in _switches(switch or []).items():
        sections.setdefault("search", {})[name] = values
    for kind, names in (("allow", allow), ("forbid", forbid)):
        if names:
            sections.setdefault("search", {})[kind] = options.names(names)

    from app.jobs.job import load_job

    labels = options.labels(fields, given)
    named = {"search.time_limit_s": ("--time-limit", time_limit_s), "search.budget_usd": ("--budget", budget_usd)}
    labels |= {field: name for field, (name, value) in named.items() if value is not None}
    own_sections = sections
    sections = options.with_lengths(lengths, sections, lambda: load_job(model, own_sections, labels))
    job = load_job(model, sections, labels)

    from app.answers.files import launch_file_names, report_files  # a refused flag does not wait for these
    from app.answers.folder import answer_folder
    from app.answers.search import search_document
    from app.answers.tables.search import SECTIONS, print_search
    from app.answers.targets import with_usual_target
    from app.calibrations.constants import own_calibrations
    from app.cli.progress import search_progress
    from app.cli.searching import searching
    from app.jobs.spares import with_filled_devices
    from app.text import terminal

    to_print = options.sections_shown(details, show, SECTIONS)
    if devices_at_most is not None:
        job = with_filled_devices(job)
    own = own_calibrations(job) if server is None else ()
    job = with_usual_target(job, own)
    folder = None if save_dir is None else answer_folder(save_dir, overwrite=overwrite)
    if server is None:
        with searching(executor) as (on_progress, workers):
            document = search_document(job, on_progress, own=own, executor=workers)
    else:
        from app.cli.remote import remote_search_document

        with search_progress() as on_progress:
            language = "en" if as_json or folder is not None else spoken()
            document = remote_search_document(job, server, on_progress, study_labels, language)
    saved = {} if save_dir is None else {str(save_dir / name): launch for name, launch in launch_file_names(document).items()}
    terminal.answer(document, as_json, lambda console: print_search(console, document, to_print, saved))
    if folder is not None:
        folder.write(report_files(document))
    said = not as_json and sys.stdout.isatty()  # the report on this terminal says it
    if document.proof.stopped_by:
        if not said:
            stopped_by = word(document.proof.stopped_by)
            terminal.messages().print(Sentence("The search was cut by {}: better plans may exist.", stopped_by), markup=False)
        return SEARCH_CUT
    if not document.plans:
        if not said:
            why = document.nearest if as_json else Sentence("the answer says why")
            terminal.messages().print(Sentence("No plan: {}", why), markup=False)
        return NOTHING_FEASIBLE
    return DONE


def _parsed(parameters: dict[str, Any]) -> dict[str, Any]:
    if parameters.get("devices") is not None and parameters.get("devices_at_most") is not None:
        raise InputError(Sentence("--devices-at-most: given beside --devices; give one of the two."))
    limits = {name: options.limit(parameters[name], name) for name in LIMITS if parameters.get(name) is not None}
    objective = parameters.get("objective")
    several = {"objective": options.names([objective])} if objective is not None and "," in objective else {}
    return {**parameters, **limits, **several}


def _switches(given: list[str]) -> dict[str, Any]:
    named = options.assignments(given, Sentence("its values, as in mc2=true,false"))
    return {name: options.limit(values, "switch") for name, values in named.items()}

"""``meshplan explain``: the bounds of a plan, and the effect of each change."""

from __future__ import annotations

import typer

from app.cli.commands import options
from app.cli.commands.estimate import STRATEGY, job_of_flags
from app.exit_codes import DONE


@options.with_job_options(STRATEGY)
def explain(
    context: typer.Context,
    model: options.Model,
    executor: options.Executor = None,
    details: options.Details = False,
    show: options.ExplainSections = None,
    as_json: options.Json = False,
) -> int:
    """Explains a plan or, without a strategy, a search's best: its bound, gains of legal changes, and why another is faster."""
    from app.calibrations.constants import own_calibrations
    from app.cli.searching import searching
    from app.jobs.job import load_job
    from app.plans.explained import explain_document
    from app.plans.tables import SECTIONS, print_explained
    from app.text import terminal

    to_print = options.sections_shown(details, show, SECTIONS)
    job = load_job(model, *job_of_flags(context))
    with searching(executor) as (on_progress, workers):
        document = explain_document(job, own_calibrations(job), on_progress=on_progress, executor=workers)
    terminal.answer(document, as_json, lambda console: print_explained(console, document, to_print))
    return DONE

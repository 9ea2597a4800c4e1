"""``meshplan explain``: the bounds of a plan, and the effect of each change."""

from __future__ import annotations

import typer

from app.cli.commands import options
from app.cli.commands.estimate import STRATEGY, job_of_flags
from app.cli.commands.given_job import OfScript, given_job, without_ignored
from app.exit_codes import DONE


@options.with_job_options(STRATEGY)
def explain(
    context: typer.Context,
    model: options.Model,
    vocab_size: options.VocabSize = None,
    values: options.Values = None,
    assume: options.Assume = None,
    lengths: options.Lengths = None,
    files: options.Files = None,
    executor: options.Executor = None,
    details: options.Details = False,
    show: options.ExplainSections = None,
    as_json: options.Json = False,
) -> int:
    """Explains a plan, also a launch script's, or the best of a search: its bound, gains of legal changes, and what beats it."""
    from app.calibrations.constants import own_calibrations
    from app.cli.searching import searching
    from app.plans.explained import explain_document
    from app.plans.tables import SECTIONS, print_explained
    from app.text import terminal

    to_print = options.sections_shown(details, show, SECTIONS)
    job, read = given_job(model, *job_of_flags(context), lengths, OfScript(values, files, vocab_size, assume))
    own = own_calibrations(job)
    with searching(executor) as (on_progress, workers):
        document = explain_document(job, own, on_progress=on_progress, executor=workers)
    document = without_ignored(document, read)
    terminal.answer(document, as_json, lambda console: print_explained(console, document, to_print))
    return DONE

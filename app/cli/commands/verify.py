"""``meshplan verify``: a plan, run by its framework without data, beside its price."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.exit_codes import BUDGET_BROKEN, DONE
from documents.errors import InputError
from documents.errors import show as quoted
from documents.sentences import Sentence


def verify(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="a job with its strategy, such as plan-1.job.yaml of --save-dir")],
    python: Annotated[str | None, typer.Option(help="interpreter that has PyTorch; default: this one")] = None,
    framework_path: Annotated[
        list[Path] | None, typer.Option(help="folder to import the framework from, such as a checkout; may be repeated")
    ] = None,
    target: Annotated[str | None, typer.Option(help="framework, or name@release; default: the job's")] = None,
    ranks: Annotated[str | None, typer.Option(help="pipeline ranks, as in 0,1,3, or all; default: those that differ")] = None,
    counts: Annotated[
        Path | None, typer.Option(help="counts of an earlier run, which are compared again; nothing is run")
    ] = None,
    save_counts: Annotated[Path | None, typer.Option(help="file for the counts of this run")] = None,
    as_json: options.Json = False,
) -> int:
    """Runs a plan's launch file in the framework itself, without device and data, and compares its counts with the price."""
    from app.jobs.job import load_job
    from app.text import terminal
    from app.text.files import check_output, save_text
    from app.verification.process import counts_of, read_counts, refuse_failures
    from app.verification.schemas import CountsDocument
    from app.verification.service import verification_document
    from app.verification.table import print_verification
    from documents.reading import read_text

    if save_counts is not None:
        check_output(save_counts, "--save-counts", [plan])
    job = load_job(str(plan), {} if target is None else {"software": {"target": target}}, {"software.target": "--target"})
    folders = [str(each.absolute()) for each in framework_path or ()]

    def run(question: dict[str, object]) -> CountsDocument:
        if counts is not None:
            found = read_counts(read_text(counts), str(counts))
            refuse_failures(found)
            return found
        return counts_of(question, python or sys.executable, _progress)

    def kept(question: dict[str, object]) -> CountsDocument:
        found = run(question)
        if save_counts is not None:
            save_text(save_counts, found.model_dump_json(indent=1, exclude_unset=True), "--save-counts")
        return found

    document = verification_document(job, kept, _ranks(ranks, job), folders)
    terminal.answer(document, as_json, lambda console: print_verification(console, document))
    return DONE if document.passed else BUDGET_BROKEN


def _progress(line: str) -> None:
    from app.text.terminal import messages

    name, _, rank = line.partition(" ")
    if name == "rank":
        messages().print(Sentence("rank {}", rank), markup=False)


def _ranks(given: str | None, job: Any) -> list[int] | None:
    if given is None:
        return None
    if given == "all":
        return list(range(job.strategy.pp if job.strategy else 1))
    try:
        return [int(each) for each in given.split(",")]
    except ValueError:
        raise InputError(Sentence("--ranks: {}; give numbers such as 0,1,3, or all.", quoted(given))) from None

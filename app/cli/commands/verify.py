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
    overwrite: options.Overwrite = False,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="have this server keep the counts (key in MESHPLAN_API_KEY)", rich_help_panel="Server"),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="STUDY/PLAN", help="study and plan on the server, by id", rich_help_panel="Server")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Runs a plan's launch file in the framework itself, without device and data, and compares its counts with the price."""
    from app.jobs.job import load_job
    from app.text import terminal
    from app.text.files import check_new_file, save_text
    from app.verification.process import counts_of, read_counts, refuse_failures
    from app.verification.schemas import CountsDocument
    from app.verification.service import verification_document
    from app.verification.table import print_verification
    from documents.reading import read_text

    kept_at = _kept_at(server, keep)
    check_new_file(save_counts, "--save-counts", [plan], overwrite=overwrite)
    job = load_job(str(plan), {} if target is None else {"software": {"target": target}}, {"software.target": "--target"})
    folders = [str(each.absolute()) for each in framework_path or ()]

    def run(question: dict[str, object]) -> CountsDocument:
        if counts is not None:
            found = read_counts(read_text(counts), str(counts))
            refuse_failures(found)
            return found
        return counts_of(question, python or sys.executable, _progress)

    sent: list[dict[str, Any]] = []

    def kept(question: dict[str, object]) -> CountsDocument:
        found = run(question)
        sent.append(found.model_dump(mode="json", exclude_unset=True))
        if save_counts is not None:
            save_text(save_counts, found.model_dump_json(indent=1, exclude_unset=True), "--save-counts")
        return found

    document = verification_document(job, kept, _ranks(ranks, job), folders)
    if kept_at is not None:
        _send(*kept_at, sent[-1])
    terminal.answer(document, as_json, lambda console: print_verification(console, document))
    return DONE if document.passed else BUDGET_BROKEN


def _kept_at(server: str | None, keep: str | None) -> tuple[str, str, str] | None:
    """URL, study and plan; ``InputError`` if only some are given."""
    if server is None and keep is None:
        return None
    study, _, plan = (keep or "").partition("/")
    if server is None or not study or not plan:
        raise InputError(Sentence("--server and --keep go together; give --keep STUDY/PLAN, the ids of a plan on the server."))
    return server, study, plan


def _send(url: str, study: str, plan: str, counts: dict[str, Any]) -> None:
    from app.cli.remote import keep_verification
    from app.text.terminal import messages

    agrees = keep_verification(url, study, plan, counts)
    said = Sentence("all counts agree") if agrees else Sentence("counts disagree")
    messages().print(Sentence("--server: kept with plan {} of study {}; by its price, {}.", plan, study, said), markup=False)


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

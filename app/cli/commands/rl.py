"""``meshplan rl``: post-training by reinforcement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.commands import options
from app.cli.commands.options import Json
from app.exit_codes import DONE, SEARCH_CUT
from app.language.choice import spoken
from documents.errors import InputError
from documents.sentences import Sentence, word

if TYPE_CHECKING:
    from app.answers.folder import AnswerFolder
    from app.rl.schemas import RlDocument, RlSearchDocument

commands = typer.Typer(no_args_is_help=True, help="Post-training: steps of rollout and training, where they run, how stale.")


@commands.callback()
def _group() -> None:
    """Post-training by reinforcement."""


_JOB = Annotated[str, typer.Argument(metavar="JOB", help="job file (YAML or JSON) with model, cluster and post_training")]


_SAVE_DIR = Annotated[
    Path | None, typer.Option("--save-dir", help="folder for the answer, and its settings for MindSpeed-RL and verl")
]
_OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="replace the answer that --save-dir holds")]


@commands.command("estimate")
def estimate(
    job: _JOB,
    save_dir: _SAVE_DIR = None,
    overwrite: _OVERWRITE = False,
    details: options.Details = False,
    as_json: Json = False,
) -> int:
    """Prices a step on the job's placement: tasks, pools, changes of layout, and the task that each task waits for."""
    from app.rl.job import load_rl_job
    from app.rl.service import rl_document
    from app.rl.tables import print_rl
    from app.text import terminal

    folder = _folder(save_dir, overwrite=overwrite)
    document = rl_document(load_rl_job(job))
    terminal.answer(document, as_json, lambda console: print_rl(console, document, details=details))
    _save(folder, document)
    return DONE


@commands.command("search")
def search(
    job: _JOB,
    save_dir: _SAVE_DIR = None,
    overwrite: _OVERWRITE = False,
    executor: options.Executor = None,
    server: options.Server = None,
    name: options.Name = None,
    tag: options.Tag = None,
    note: options.Note = None,
    details: options.Details = False,
    as_json: Json = False,
) -> int:
    """The fastest placement, split of devices, layouts and staleness, and what each step of staleness gains."""
    from app.answers.executors import opened
    from app.cli.progress import placement_progress
    from app.cli.searching import interruptible
    from app.rl.job import load_rl_job
    from app.rl.service import rl_search_document
    from app.rl.tables import print_rl_search
    from app.text import terminal

    if executor is not None and server is not None:
        raise InputError(options.EXECUTOR_AND_SERVER)
    study_labels = options.study_labels(server, name, tag, note)
    folder = _folder(save_dir, overwrite=overwrite)
    read = load_rl_job(job)
    with placement_progress() as show:
        if server is None:
            with interruptible() as heeding, opened(executor, "--executor") as workers:
                document = rl_search_document(read, heeding(show), executor=workers)
        else:
            from app.cli.remote import remote_rl_search_document
            from app.jobs.job import job_document

            given, _ = job_document(job, {})
            document = remote_rl_search_document(
                given, read, server, show, study_labels, "en" if as_json or folder is not None else spoken()
            )
    terminal.answer(document, as_json, lambda console: print_rl_search(console, document, details=details))
    _save(folder, document)
    if document.stopped_by is None:
        return DONE
    if as_json or not sys.stdout.isatty():
        cut = word(document.stopped_by)
        terminal.messages().print(
            Sentence("Cut by {} after {} of {} splits.", cut, document.num_done, document.num_splits), markup=False
        )
    return SEARCH_CUT


@commands.command("validate")
def validate(
    runs: Annotated[Path, typer.Argument(metavar="RUNS.jsonl", help="measured post-training runs, one JSON object a line")],
    rows: Annotated[bool, typer.Option("--rows", help="every record with its error, not only the errors by kind")] = False,
    as_json: Json = False,
) -> int:
    """Predicts every record of steps, rollouts, weight updates and inference, in file order, and reports the errors."""
    from app.rl.tables import print_validation
    from app.rl.validation import validation_document
    from app.text import terminal
    from calibration.records.post_training import read_post_training_records

    document = validation_document(read_post_training_records(runs))
    terminal.answer(document, as_json, lambda console: print_validation(console, document, with_rows=rows))
    return DONE


def _folder(save_dir: Path | None, *, overwrite: bool) -> AnswerFolder | None:
    """Open the folder before pricing, so that no answer is lost because it cannot be written."""
    from app.answers.folder import answer_folder

    if overwrite and save_dir is None:
        raise InputError(Sentence("--overwrite: there is nothing to replace without --save-dir."))
    return None if save_dir is None else answer_folder(save_dir, overwrite=overwrite)


def _save(folder: AnswerFolder | None, document: RlDocument | RlSearchDocument) -> None:
    from app.rl.export import answer_files

    if folder is not None:
        folder.write(answer_files(document))

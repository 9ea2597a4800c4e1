"""``meshplan rl``: post-training by reinforcement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import completion
from app.cli.commands import options
from app.cli.commands.options import Json
from app.exit_codes import DONE, SEARCH_CUT
from app.language.choice import spoken
from documents.errors import InputError, show
from documents.sentences import Sentence, word

if TYPE_CHECKING:
    from app.answers.folder import AnswerFolder
    from app.rl.job import RlJob
    from app.rl.schemas import RlDocument, RlSearchDocument

commands = typer.Typer(no_args_is_help=True, help="Post-training: steps of rollout and training, where they run, how stale.")


@commands.callback()
def _group() -> None:
    """Post-training by reinforcement."""


_JOB = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="job file (YAML or JSON) with model, cluster and post_training, or a recipe: a script that starts verl, or a YAML "
        "file of verl or MindSpeed-RL",
    ),
]
_RECIPE = "Recipe"


def _flag(
    kind: Any, text: str, *names: str, metavar: str | None = None, completed: Callable[[str], list[str]] | None = None
) -> Any:
    option = typer.Option(*names, help=text, rich_help_panel=_RECIPE, metavar=metavar, autocompletion=completed)
    return Annotated[kind, option]


_FLAGS: dict[str, Any] = {
    "hardware": _flag(str | None, "profile name or file; needed for a recipe", completed=completion.hardware),
    "devices": _flag(int | None, "number of devices, where the recipe does not say"),
    "model": _flag(str | None, "a known model, in place of the recipe's path", completed=completion.models),
    "mean_answer": _flag(float | None, "tokens of an answer in the mean; needed for a recipe"),
    "mean_prompt": _flag(float | None, "tokens of a prompt in the mean (default 150)"),
    "sigma": _flag(float | None, "spread of the answers' lengths, as lengths.sigma of a job (default 0.7)"),
    "kept_fraction": _flag(float | None, "part of the prompts that a filter of groups keeps"),
    "values": _flag(list[str] | None, "a variable of the environment", "--set", metavar="NAME=VALUE"),
    "files": _flag(
        list[Path] | None, "a file that the recipe sources or includes; config.json: the model's", "--with", metavar="FILE"
    ),
    "assume": _flag(
        list[str] | None, "a setting of the recipe to ignore although the price depends on it", metavar="NAME=ignored"
    ),
}


_of_recipe = partial(options.with_flags, flags=_FLAGS, behind="job", collected="of_recipe")  # what a recipe leaves open


_SAVE_DIR = Annotated[
    Path | None, typer.Option("--save-dir", help="folder for the answer, and its settings for MindSpeed-RL and verl")
]
_OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="replace the answer that --save-dir holds")]


@commands.command("estimate")
@_of_recipe
def estimate(
    job: _JOB,
    of_recipe: Mapping[str, Any],
    save_dir: _SAVE_DIR = None,
    overwrite: _OVERWRITE = False,
    details: options.Details = False,
    as_json: Json = False,
) -> int:
    """Prices a step on the job's placement: tasks, pools, changes of layout, and the task that each task waits for."""
    from app.rl.service import TOO_LARGE, rl_document
    from app.rl.tables import print_rl
    from app.text import terminal

    folder = _folder(save_dir, overwrite=overwrite)
    read, ignored = _read(job, of_recipe, keeps_layouts=True)
    document = rl_document(read)
    if ignored:
        left_out = [Sentence("Left out of the price: {}.", one) for one in ignored]
        warnings = [*left_out, *(one for one in document.warnings if one != TOO_LARGE)]
        document = document.model_copy(update={"training_fits": None, "warnings": warnings})
    terminal.answer(document, as_json, lambda console: print_rl(console, document, details=details))
    _save(folder, document)
    return DONE


@commands.command("search")
@_of_recipe
def search(
    job: _JOB,
    of_recipe: Mapping[str, Any],
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
    from app.rl.service import rl_search_document
    from app.rl.tables import print_rl_search
    from app.text import terminal

    if executor is not None and server is not None:
        raise InputError(options.EXECUTOR_AND_SERVER)
    study_labels = options.study_labels(server, name, tag, note)
    folder = _folder(save_dir, overwrite=overwrite)
    if of_recipe["assume"]:
        raise InputError(
            Sentence("--assume: a search keeps what fits, which is not known then; `meshplan rl estimate` takes it.")
        )
    read, _ = _read(job, of_recipe, keeps_layouts=False)
    with placement_progress() as show:
        if server is None:
            with interruptible() as heeding, opened(executor, "--executor") as workers:
                document = rl_search_document(read, heeding(show), executor=workers)
        else:
            from app.cli.remote import remote_rl_search_document
            from app.jobs.job import job_document
            from app.recipes.forms import is_recipe

            given = read.document if is_recipe(job) else job_document(job, {})[0]
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


def _read(source: str, of_recipe: Mapping[str, Any], *, keeps_layouts: bool) -> tuple[RlJob, Sequence[str]]:
    """The job of a file or a recipe, with or without the recipe's layouts, and what the price leaves out of it."""
    from app.recipes.forms import is_recipe
    from app.rl.job import load_rl_job

    given = {name: value for name, value in of_recipe.items() if value}
    if not is_recipe(source):
        if given:
            flag = {"values": "set", "files": "with"}.get(next(iter(given)), next(iter(given)))
            raise InputError(
                Sentence("--{}: only of a recipe, and {} is none; leave it out.", flag.replace("_", "-"), show(source))
            )
        return load_rl_job(source), ()
    from app.recipes.files import load_recipe
    from app.recipes.reading import Stated

    if "hardware" not in given:
        raise InputError(Sentence("cluster.hardware (--hardware): missing; a recipe does not say it."))
    lengths = {"mean": given.get("mean_answer"), "sigma": given.get("sigma")}
    stated = Stated(
        given["hardware"],
        given.get("devices"),
        given.get("model"),
        given.get("mean_prompt"),
        given.get("kept_fraction"),
        {name: value for name, value in lengths.items() if value is not None},
    )
    found = load_recipe(
        Path(source),
        stated,
        values=given.get("values", ()),
        files=given.get("files", ()),
        assume=given.get("assume", ()),
        keeps_layouts=keeps_layouts,
    )
    return found.job, found.ignored


def _folder(save_dir: Path | None, *, overwrite: bool) -> AnswerFolder | None:
    """Open the folder before pricing, so that no answer is lost because it cannot be written."""
    from app.answers.folder import answer_folder
    from app.text.files import refuse_idle_overwrite

    if save_dir is None:
        refuse_idle_overwrite("--save-dir", overwrite=overwrite)
        return None
    return answer_folder(save_dir, overwrite=overwrite)


def _save(folder: AnswerFolder | None, document: RlDocument | RlSearchDocument) -> None:
    from app.rl.export import answer_files

    if folder is not None:
        folder.write(answer_files(document))

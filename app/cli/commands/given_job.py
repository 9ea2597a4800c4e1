"""The job of a command's MODEL, which may be a launch script, and what a script leaves in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from app.cli.commands import options
from documents.errors import InputError
from documents.errors import show as quoted
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.answers.schemas import EstimateDocument
    from app.jobs.job import Job
    from app.launch_scripts.reading import ReadScript

Document = TypeVar("Document", bound="EstimateDocument")


class OfScript(NamedTuple):
    """What flags say about a launch script."""

    values: Sequence[str] | None
    files: Sequence[Path] | None
    vocab_size: int | None
    assume: Sequence[str] | None


def given_job(
    model: str, sections: Mapping[str, Any], labels: Mapping[str, str], lengths: str | None, of_script: OfScript
) -> tuple[Job, ReadScript | None]:
    """The job of a preset, a file or a launch script, with flags in place of its values; the script as it was read."""
    from app.jobs.job import load_job
    from app.launch_scripts.forms import is_launch_script

    stated = dict(sections)
    if is_launch_script(model):
        from app.launch_scripts.files import script_job
        from app.launch_scripts.service import refuse_unstartable

        reading = partial(
            script_job,
            model,
            values=of_script.values or (),
            files=of_script.files or (),
            vocab_size=of_script.vocab_size,
            assume=of_script.assume or (),
        )
        read = reading(options.with_lengths(lengths, stated, lambda: reading(stated).job))
        refuse_unstartable(read)
        return read.job, read
    names = {"values": "--set", "files": "--with", "vocab_size": "--vocab-size", "assume": "--assume"}
    for name, value in of_script._asdict().items():
        if value:
            raise InputError(Sentence("{}: only of a launch script, and {} is none; leave it out.", names[name], quoted(model)))
    sections = options.with_lengths(lengths, stated, lambda: load_job(model, stated, labels))
    return load_job(model, sections, labels), None


def without_ignored(document: Document, read: ReadScript | None) -> Document:
    """The answer with what a script is asked to ignore; what was not understood goes to standard error."""
    if read is None:
        return document
    from app.launch_scripts.service import not_understood, without_verdict
    from app.launch_scripts.table import print_not_understood
    from app.text import terminal

    print_not_understood(terminal.messages(), not_understood(read))
    if read.ignored:
        numbers = type(document.estimate).model_validate(without_verdict(document.estimate.model_dump()))
        document = document.model_copy(update={"estimate": numbers, "ignored": [entry.text for entry in read.ignored]})
    return document

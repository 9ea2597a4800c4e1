"""``meshplan report``: a search as one page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from app.cli.commands.options import Overwrite
from app.exit_codes import DONE
from app.language.choice import Language, spoken
from documents.errors import InputError, unknown_name
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.reports.report import Form

_OTHER_FORMS = (".pdf", ".doc", ".docx", ".ppt", ".pptx", ".xls", ".xlsx", ".json")
FORMS = ("html", "markdown", "pdf-ready")
MAX_BYTES = 1 << 26  # an answer with a thousand plans
MAX_VALUES = 4_000_000
_STUDY = re.compile(r"[0-9a-f]{16}")


def report(
    study: Annotated[
        str, typer.Argument(help="a study's id, or the file that `search --json` or --save-dir wrote", metavar="STUDY")
    ],
    form: Annotated[str, typer.Option("--format", help="html, markdown, or pdf-ready: HTML laid out for paper")] = "html",
    output: Annotated[Path | None, typer.Option(help="file to write; else standard output")] = None,
    overwrite: Overwrite = False,
    server: Annotated[str | None, typer.Option(help="URL of the server that has the study; else this machine's database")] = None,
) -> int:
    """Writes a search as one page for a meeting: what to run and why, the plans, where time and memory go, in pictures."""
    if form not in FORMS:
        raise unknown_name("--format", form, FORMS)
    form, language = cast("Form", form), spoken()
    from app.text.files import check_new_file, save_text

    if output is not None:
        ending = ".md" if form == "markdown" else ".html"
        if output.suffix.lower() in _OTHER_FORMS:
            raise InputError(
                Sentence("--output: {} would not hold what its name says; give a name that ends in {}.", output.name, ending)
            )
    check_new_file(output, "--output", [Path(study)], overwrite=overwrite)
    if server is not None:
        from app.cli.remote import remote_report

        text = remote_report(server, study, form, language)
    elif _STUDY.fullmatch(study):
        text = _of_study(study, form, language)
    else:
        text = _of_file(Path(study), form, language)
    if output is None:
        from app.text.terminal import write_text

        write_text(text)
    else:
        save_text(output, text, "--output")
    return DONE


def _of_study(study: str, form: Form, language: Language) -> str:
    from app.reports.service import study_report
    from app.settings import load_settings
    from app.storage.session import Database
    from app.storage.upgrade import check_current
    from app.studies.errors import StudyConflict, StudyNotFound

    with Database(load_settings().url) as database:
        check_current(database)
        try:
            return study_report(database, study, form, language)
        except (StudyConflict, StudyNotFound) as error:
            raise InputError(str(error)) from None


def _of_file(path: Path, form: Form, language: Language) -> str:
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from app.answers.schemas import SearchDocument
    from app.reports.report import report as written
    from documents.reading import Limits, read_document

    document = read_document(path, Limits(num_bytes=MAX_BYTES, values=MAX_VALUES), is_json=True)
    try:
        answer = SearchDocument.model_validate(document)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InputError(Sentence("{}: is no answer of `meshplan search --json` of this version ({}).", path, where)) from None
    return written(answer, form, language, datetime.fromtimestamp(path.stat().st_mtime, UTC).date())

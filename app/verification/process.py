"""The process of the user's Python that runs the framework."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.verification.schemas import CountsDocument
from documents.errors import InputError, cause_of
from documents.sentences import Sentence

PROGRAM = Path(__file__).resolve().parents[2] / "execution" / "__main__.py"
LAST_LINES = 3


def counts_of(question: dict[str, Any], python: str, on_line: Callable[[str], None], program: Path = PROGRAM) -> CountsDocument:
    """Start the process and read its answer. Raises ``InputError`` if it gives none, or if a rank failed."""
    with tempfile.TemporaryDirectory(prefix="meshplan-verify-") as folder:
        asked, answered, said = (Path(folder) / name for name in ("question.json", "answer.json", "said.txt"))
        asked.write_text(json.dumps(question), encoding="utf-8")
        try:
            with (
                said.open("w") as errors,
                subprocess.Popen(  # noqa: S603 - the interpreter that the user names
                    [python, "-I", str(program), str(asked), str(answered)],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    stdin=subprocess.DEVNULL,
                    cwd=folder,
                    text=True,
                ) as process,
            ):
                assert process.stdout is not None
                for line in process.stdout:
                    on_line(line.rstrip("\n"))
        except OSError as error:
            raise InputError(Sentence("--python: {} does not start: {}.", python, cause_of(error))) from None
        if process.returncode != 0 or not answered.exists():
            lines = said.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            raise InputError(
                Sentence("--python: {} ended with {} and without an answer: {}", python, process.returncode, " ".join(lines))
            )
        found = read_counts(answered.read_text(encoding="utf-8"), str(answered))
    refuse_failures(found)
    return found


def read_counts(text: str, name: str) -> CountsDocument:
    """Counts of a file. Raises ``InputError``."""
    try:
        return CountsDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(Sentence("{}: no counts of a run: {}: {}.", name, place, Sentence.whole(first["msg"]))) from None


def refuse_failures(found: CountsDocument) -> None:
    """Raise ``InputError`` if a rank has no counts."""
    for each in found.ranks:
        if each.failed is None:
            continue
        failed = each.failed
        if failed.kind == "UnknownKernelError":
            raise InputError(
                Sentence(
                    "Rank {}: the framework calls {}, and what it keeps is not known; nothing is guessed.",
                    each.rank,
                    failed.message,
                )
            )
        if failed.kind == "ModuleNotFoundError":
            raise InputError(
                Sentence(
                    "Rank {}: {}; name an interpreter that has it by --python, and the framework's folder by --framework-path.",
                    each.rank,
                    Sentence.whole(failed.message),
                )
            )
        raise InputError(
            Sentence(
                "Rank {}: the framework stopped at its stage {}: {}: {} ({}).",
                each.rank,
                failed.stage,
                failed.kind,
                Sentence.whole(failed.message),
                failed.place,
            )
        )

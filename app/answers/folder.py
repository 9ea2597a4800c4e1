"""A folder for one saved answer. A list of its files ensures that no file of the user is removed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from pathlib import Path

from documents.errors import InputError, cause_of
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.registry import FRAMEWORKS

MANIFEST = ".meshplan-files.json"
MAX_MANIFEST_BYTES = 1 << 20
MAX_REPORT_BYTES = 1 << 28
REPORT = "report.json"
_FRAMEWORKS = "|".join(sorted({re.escape(framework.name) for framework in FRAMEWORKS}))
_OURS = re.compile(
    rf"report\.(txt|json)|job\.yaml|expert_counts\.json|(plan-[1-9][0-9]*|by-tensor)\.(job|({_FRAMEWORKS})[A-Za-z0-9@._-]*)\.(sh|yaml)"
    r"|post-training\.(mindspeed-rl\.yaml|verl\.sh)"
)


@dataclass(frozen=True)
class AnswerFolder:
    """A folder for an answer, and the names of the files of an earlier answer in it."""

    path: Path
    left: frozenset[str]

    def write(self, texts: Mapping[str, str]) -> None:
        """Write the files of an answer in place of the earlier ones; ``InputError`` if that fails."""
        try:
            self._list(self.left | texts.keys())  # first, so that files left by a failure are known as ours
            for name in self.left - texts.keys():
                (self.path / name).unlink(missing_ok=True)
            for name, text in texts.items():
                (self.path / name).write_text(text, encoding="utf-8")
            self._list(texts.keys())
        except OSError as error:
            raise InputError(Sentence("--save-dir: {} cannot be written ({}).", self.path, cause_of(error))) from None

    def _list(self, names: Set[str]) -> None:
        document = {"files": sorted(names)}
        (self.path / MANIFEST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def answer_folder(folder: Path, *, overwrite: bool) -> AnswerFolder:
    """Open or create the folder; ``InputError`` if it has another answer, or files of the user with our names.

    This runs before a search, so that no answer is lost because it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        named_as_ours = {path.name: path for path in folder.iterdir() if _OURS.fullmatch(path.name)}
        known = _known(folder)
    except FileExistsError:
        raise InputError(Sentence("--save-dir: {} is a file; give a folder.", folder)) from None
    except OSError as error:
        raise InputError(Sentence("--save-dir: {} cannot be made or read ({}).", folder, cause_of(error))) from None
    for name, path in sorted(named_as_ours.items()):
        if path.is_symlink() or not path.is_file() or not (known is None or name in known):
            raise InputError(
                Sentence("--save-dir: {} is not of an answer that meshplan saved here; move it, or give another folder.", path)
            )
    left = sorted(named_as_ours)
    if left and not overwrite:
        more = Sentence(" and {} more", len(left) - 1) if len(left) > 1 else ""
        raise InputError(
            Sentence(
                "--save-dir: {} holds another answer ({}{}); give another folder, or --overwrite to replace it.",
                folder,
                left[0],
                more,
            )
        )
    return AnswerFolder(folder, frozenset(left))


def _known(folder: Path) -> frozenset[str] | None:
    """Names in the list; None for an answer of a version without a list, where every file is ours."""
    manifest = _document(folder / MANIFEST, MAX_MANIFEST_BYTES)
    if isinstance(manifest, dict) and isinstance(manifest.get("files"), list):
        return frozenset(name for name in manifest["files"] if isinstance(name, str))
    report = _document(folder / REPORT, MAX_REPORT_BYTES)
    is_answer = isinstance(report, dict) and {"schema_version", "job", "proof", "plans"} <= report.keys()
    return None if is_answer else frozenset()


def _document(path: Path, most_bytes: int) -> object:
    """Content of a JSON file; None if it cannot be read."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > most_bytes:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None

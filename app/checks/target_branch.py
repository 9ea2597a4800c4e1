"""The job on the target branch of a merge request: the baseline if none is committed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from app.jobs.job import job_document
from documents.bounds import DOCUMENT_BYTES
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence

GIT_TIMEOUT_S = 30.0
MAX_FILES, FILE_BYTES = 8, 16 * 2**20  # files that a job names: model, hardware, calibration, counts
MAX_REFERENCE, MAX_DEPTH = 200, 8


@dataclass(frozen=True)
class EarlierJob:
    """A copy of a job file from a commit; ``former_name`` is its path there, if it was renamed since."""

    path: Path
    former_name: str | None


@contextmanager
def job_at(reference: str, path: Path) -> Iterator[EarlierJob | None]:
    """The job file in the commit ``reference``, with the files that it names; None if the commit lacks it."""
    root = Path(_git(path.parent, "rev-parse", "--show-toplevel").decode().strip())
    commit = _commit(root, reference)
    name = path.resolve().relative_to(root.resolve()).as_posix()
    former_name = None if _holds(root, commit, name) else _former_name(root, commit, name)
    place = PurePosixPath(former_name or name)
    if not _holds(root, commit, place.as_posix()):
        yield None
        return
    with TemporaryDirectory(prefix="meshplan-") as folder:
        job = _copy(root, commit, place.as_posix(), Path(folder), DOCUMENT_BYTES)
        document: Mapping[str, Any] = {}
        with suppress(InputError):  # a file that is no job is refused when it is priced
            document, _ = job_document(str(job), {})
        named = [found for text in _strings(document) if (found := _inside(place.parent.as_posix(), text)) is not None]
        held = [name for name in dict.fromkeys(named) if _holds(root, commit, name)]
        if len(held) > MAX_FILES:
            raise InputError(
                Sentence("--baseline-ref: {} names {} files there, more than {}.", show(str(path)), len(held), MAX_FILES)
            )
        for name in held:
            _copy(root, commit, name, Path(folder), FILE_BYTES)
        yield EarlierJob(job, former_name)


def _commit(root: Path, reference: str) -> str:
    if reference.startswith("-") or not 0 < len(reference) <= MAX_REFERENCE or not reference.isprintable():
        raise InputError(Sentence("--baseline-ref: {} is not allowed; give a branch, a tag or a commit.", show(reference)))
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}").decode().strip()
    except InputError:
        raise InputError(
            Sentence("--baseline-ref: {} is no commit here; fetch it first (git fetch --depth 1 origin BRANCH).", show(reference))
        ) from None


def _holds(root: Path, commit: str, name: str) -> bool:
    """Whether the name is a file of the commit and no link."""
    listed = _git(root, "ls-tree", "-z", commit, "--", f":(literal){name}")
    return listed.startswith((b"100644 blob ", b"100755 blob "))


def _former_name(root: Path, commit: str, name: str) -> str | None:
    """Path in the commit of the file that is now ``name`` in the index; git detects renames by similarity."""
    words = ("diff-index", "--cached", "--find-renames", "--diff-filter=R", "--name-status", "-z", commit)
    status_from_to = _git(root, *words).decode(errors="surrogateescape").split("\0")
    return next((old for old, new in zip(status_from_to[1::3], status_from_to[2::3], strict=False) if new == name), None)


def _copy(root: Path, commit: str, name: str, folder: Path, max_bytes: int) -> Path:
    if int(_git(root, "cat-file", "-s", f"{commit}:{name}")) > max_bytes:
        raise InputError(Sentence("--baseline-ref: {} is larger there than the {:,} bytes that are read.", show(name), max_bytes))
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_git(root, "cat-file", "blob", f"{commit}:{name}"))
    return target


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and depth < MAX_DEPTH:
        for inner in value.values():
            yield from _strings(inner, depth + 1)


def _inside(folder: str, text: str) -> str | None:
    """Path of a file of the repository that a job in ``folder`` may name by ``text``."""
    if not 0 < len(text) <= MAX_REFERENCE or text.startswith("/") or not PurePosixPath(text).suffix or not text.isprintable():
        return None
    parts: list[str] = [] if folder == "." else folder.split("/")
    for part in text.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _git(folder: Path, *arguments: str) -> bytes:
    """Output of git. The repository's settings cannot run a program: no hook, filter or pager is used."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and names of files and commits are checked
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise InputError(Sentence("--baseline-ref: there is no git on this machine; give a file (--baseline).")) from None
    except subprocess.TimeoutExpired:
        raise InputError(Sentence("--baseline-ref: git did not answer within {:.0f} s.", GIT_TIMEOUT_S)) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(Sentence("--baseline-ref: git says: {}.", (lines[0] if lines else Sentence("nothing"))[:200]))
    return done.stdout

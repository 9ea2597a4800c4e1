"""Output files of commands."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from documents.errors import InputError, cause_of
from documents.sentences import Sentence


def check_output(path: Path, flag: str, read: Iterable[Path] = ()) -> None:
    """``InputError`` for a path that cannot be written, or that is one of the files ``read``; called before the work."""
    try:
        if path.is_dir() or not path.parent.is_dir():
            raise InputError(
                Sentence(
                    "{}: {} is {}; give a file.",
                    flag,
                    path,
                    Sentence("a folder") if path.is_dir() else Sentence("in no folder that exists"),
                )
            )
        if path.exists() and any(given.exists() and path.samefile(given) for given in read):
            raise InputError(Sentence("{}: {} is a file that the command reads; give another.", flag, path))
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unwritable(path, flag, error) from None


def check_new_file(path: Path | None, flag: str, read: Iterable[Path] = (), *, overwrite: bool) -> None:
    """``check_output`` of a file that is written whole; ``InputError`` also where it exists, unless ``--overwrite`` is given."""
    if path is None:
        refuse_idle_overwrite(flag, overwrite=overwrite)
        return
    check_output(path, flag, read)
    if path.is_file() and not overwrite:
        raise InputError(Sentence("{}: {} exists already; give another file, or --overwrite to replace it.", flag, path))


def refuse_idle_overwrite(flag: str, *, overwrite: bool) -> None:
    """``InputError`` for ``--overwrite`` where ``flag``, which names what it replaces, is not given."""
    if overwrite:
        raise InputError(Sentence("--overwrite: there is nothing to replace without {}.", flag))


def save_text(path: Path, text: str, flag: str) -> None:
    """Write the text; ``InputError`` for a path, given by ``flag``, that cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unwritable(path, flag, error) from None


def replace_text(path: Path, text: str, flag: str) -> None:
    """Like ``save_text``, but atomic: readers see the whole old or new text, also after an interrupt."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _unwritable(path, flag, error) from None


def _unwritable(path: Path, flag: str, error: OSError | ValueError) -> InputError:
    return InputError(Sentence("{}: {} cannot be written ({}).", flag, path, cause_of(error)))

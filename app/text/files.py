"""Text that a command leaves in a file."""

from __future__ import annotations

import os
from pathlib import Path

from documents.errors import InputError


def save_text(path: Path, text: str, flag: str) -> None:
    """``InputError`` for a path, given by ``flag``, that cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unwritable(path, flag, error) from None


def replace_text(path: Path, text: str, flag: str) -> None:
    """As ``save_text``, and whoever reads or interrupts finds the whole of the old text or of the new."""
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
    return InputError(f"{flag}: {path} cannot be written ({getattr(error, 'strerror', None) or error}).")

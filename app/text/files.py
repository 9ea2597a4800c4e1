"""Text that a command leaves in a file."""

from __future__ import annotations

from pathlib import Path

from documents.errors import InputError


def save_text(path: Path, text: str, flag: str) -> None:
    """``InputError`` for a path, given by ``flag``, that cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{flag}: {path} cannot be written ({reason}).") from None

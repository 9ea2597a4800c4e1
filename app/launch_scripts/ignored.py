"""Names of a script or a recipe that are not understood: they refuse the file, unless the user ignores each of them."""

from __future__ import annotations

from collections.abc import Mapping

from documents.errors import InputError, show
from documents.sentences import Sentence, joined

IGNORED = "ignored"
MAX_REFUSED = 12  # most names that one refusal has


def refuse_unless_ignored(file: str, unread: Mapping[str, str], assume: Mapping[str, str]) -> None:
    """Raise ``InputError`` if a name of ``unread`` is not in ``assume``, or if that has another name or value.

    ``unread`` says of each name where it stands and what it may change.
    """
    for name, value in assume.items():
        if value != IGNORED:
            raise InputError(Sentence("assume: {}={} is not allowed; give {}={}.", show(name), show(value), name, IGNORED))
        if name not in unread:
            raise InputError(Sentence("assume: {} is nothing in {} that is not understood; leave it out.", show(name), file))
    refused = [name for name in unread if name not in assume]
    if not refused:
        return
    parts = [unread[name] for name in refused[:MAX_REFUSED]]
    if len(refused) > MAX_REFUSED:
        parts.append(Sentence("{} more", len(refused) - MAX_REFUSED))
    raise InputError(
        Sentence(
            "{}: {}. --assume {}={} leaves it out of the price; whether the job fits is then not said.",
            file,
            joined("; ", parts),
            refused[0],
            IGNORED,
        )
    )

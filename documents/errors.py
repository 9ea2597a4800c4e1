"""What can go wrong for a user, and the wording of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from documents.sentences import Sentence, ending, joined

_COMPARED_CHARACTERS = 100  # difflib is quadratic
_CUTOFF = 0.5
_FIELD = re.compile(r"([A-Za-z_]\w*(?:\.\w+|\[\d+\])*)(?: \([^)]*\))?: ")


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one sentence."""


class InfeasibleStrategyError(InputError):
    """The given strategy cannot run: it breaks a rule, or does not divide the devices."""


class InfeasibleError(Exception):
    """The input is sound, but no plan exists; the message names the nearest input that has one."""


def pointer_of(message: str) -> str | None:
    """JSON pointer to the field with whose path a message about input begins."""
    field = _FIELD.match(message)
    if field is None:
        return None
    return "#" if field[1] in ("job", "body") else "#/" + re.sub(r"\]?[.\[]|\]", "/", field[1]).strip("/")


def hint_of(message: str) -> str | None:
    """The hint that ends a message about input: the text after the last semicolon of ours."""
    hint = ending(message, "; ")
    return None if hint is None else hint[:1].upper() + hint[1:]


def cause_of(error: Exception) -> Sentence:
    """What the system or a library says of an error."""
    return Sentence.whole(getattr(error, "strerror", None) or str(error))


def nearest(value: object, allowed: Iterable[str], cutoff: float = _CUTOFF) -> str | None:
    """The allowed name that looks most like ``value``, if any does."""
    by_lower = {name.lower(): name for name in allowed}
    found = difflib.get_close_matches(str(value)[:_COMPARED_CHARACTERS].lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def plain(text: str) -> str:
    """Letters and digits alone, small: 910B and 910-b are one."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def holding(value: str, allowed: Iterable[str]) -> list[str]:
    """The allowed names of which ``value``, two letters or digits at least, is a part: those of a family, or of a short name."""
    wanted = plain(value)
    return [name for name in allowed if len(wanted) > 1 and wanted in plain(name)]


def did_you_mean(value: object, allowed: Iterable[str]) -> str:
    """The nearest allowed name as a remark, to stand right behind ``value``; "" where none looks like it."""
    guess = nearest(value, allowed)
    return Sentence(" (did you mean {!r}?)", guess) if guess else ""


def show(value: object, limit: int = 60) -> str:
    """A value as it may stand in a message: quoted, on one line, not longer than ``limit``."""
    if value is True or value is False or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and value.bit_length() > 200:
        return Sentence("an integer of more than 60 digits")
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of thousands of digits inside a list
        return Sentence("a value with an integer of more than 60 digits")
    return text if len(text) <= limit else text[: limit - 3] + "..."


def unknown_name(field: str, value: str, allowed: Iterable[str], *, what: str = "name") -> InputError:
    """The error for a name that is none of ``allowed``."""
    names = sorted(allowed)
    guess = nearest(value, names)
    hint = Sentence("did you mean {!r}? Known: ", guess) if guess else "known: "
    return InputError(Sentence("{}: {} is no known {}; {}{}.", field, show(value), what, hint, joined(", ", names)))

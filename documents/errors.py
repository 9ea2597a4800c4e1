"""Errors that users see, and helpers for their wording."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from documents.sentences import Sentence, ending, joined

_COMPARED_CHARACTERS = 100  # difflib is quadratic
_CUTOFF = 0.5
_FIELD = re.compile(r"([A-Za-z_]\w*(?:\.\w+|\[\d+\])*)(?: \([^)]*\))?: ")


class InputError(ValueError):
    """The user's input cannot be used; the message is one sentence."""


class InfeasibleStrategyError(InputError):
    """The given strategy cannot run: it breaks a rule, or does not divide the devices."""


class InfeasibleError(Exception):
    """The input is valid, but no plan exists; the message names the nearest input that has one."""


def pointer_of(message: str) -> str | None:
    """JSON pointer to the field whose path starts an input error's message; ``None`` without one."""
    field = _FIELD.match(message)
    if field is None:
        return None
    return "#" if field[1] in ("job", "body") else "#/" + re.sub(r"\]?[.\[]|\]", "/", field[1]).strip("/")


def hint_of(message: str) -> str | None:
    """The hint part of an input error: the text after the last semicolon."""
    hint = ending(message, "; ")
    return None if hint is None else hint[:1].upper() + hint[1:]


def cause_of(error: Exception) -> Sentence:
    """Message of the system or a library for an error."""
    return Sentence.whole(getattr(error, "strerror", None) or str(error))


def nearest(value: object, allowed: Iterable[str], cutoff: float = _CUTOFF) -> str | None:
    """The allowed name most similar to ``value``, if any is similar."""
    by_lower = {name.lower(): name for name in allowed}
    found = difflib.get_close_matches(str(value)[:_COMPARED_CHARACTERS].lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def plain(text: str) -> str:
    """Letters and digits in lower case: 910B and 910-b are equal."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def spelled_like(value: str, allowed: Iterable[str]) -> str | None:
    """The allowed name with the same letters and digits, in any case."""
    return next((name for name in allowed if plain(name) == plain(value)), None)


def holding(value: str, allowed: Iterable[str]) -> list[str]:
    """The allowed names that contain ``value``, if it has at least two letters or digits."""
    wanted = plain(value)
    return [name for name in allowed if len(wanted) > 1 and wanted in plain(name)]


def did_you_mean(value: object, allowed: Iterable[str]) -> str:
    """The nearest allowed name as a remark that follows ``value``; empty if none is similar."""
    guess = nearest(value, allowed)
    return Sentence(" (did you mean {!r}?)", guess) if guess else ""


def show(value: object, limit: int = 60) -> str:
    """A value for a message: quoted, on one line, at most ``limit`` characters."""
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
    """The error for a name that is not in ``allowed``."""
    names = sorted(allowed)
    guess = nearest(value, names)
    hint = Sentence("did you mean {!r}? Known: ", guess) if guess else Sentence("known: ")
    return InputError(Sentence("{}: {} is no known {}; {}{}.", field, show(value), what, hint, joined(", ", names)))

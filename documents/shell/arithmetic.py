"""Evaluates ``$((...))`` in whole numbers of 64 bits."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from documents.sentences import Sentence

_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)|(\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!]))")
_LIMIT = 2**63
_MAX_DEPTH = 32
_MAX_DIGITS = 18


class Undecided(Exception):  # noqa: N818 - an outcome, not an error
    """An expression depends on an unknown value; the message names it."""


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise ValueError(Sentence("is a division by zero"))
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    return left - right * _quotient(left, right)


def _power(left: int, right: int) -> int:
    if not 0 <= right <= 64:
        raise ValueError(Sentence("has an exponent that is not from 0 to 64"))
    return int(left**right)


def _number(text: str) -> int:
    """A decimal number, or an octal or hexadecimal one with a leading zero."""
    if len(text) > _MAX_DIGITS:
        raise ValueError("leaves 64 bits")
    base = 10 if text[0] != "0" else 16 if text[1:2] in ("x", "X") else 8
    try:
        return int(text, base)
    except ValueError:
        raise ValueError(Sentence("has {}, which is octal as it starts with 0, and has an 8 or a 9", text)) from None


_LEVELS: tuple[Mapping[str, Callable[[int, int], int | bool]], ...] = (
    {"||": lambda a, b: bool(a or b)},
    {"&&": lambda a, b: bool(a and b)},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": _remainder},
    {"**": _power},
)
_POWER = len(_LEVELS) - 1  # the only right-associative level


def calculated(text: str, value_of: Callable[[str], str]) -> int:
    """The value of an expression; ``value_of`` gives a variable's text or raises ``Undecided``.

    Raises ``ValueError`` for an invalid expression.
    """
    return _Expression(text, value_of, 0).whole()


class _Expression:
    def __init__(self, text: str, value_of: Callable[[str], str], depth: int) -> None:
        self._text, self._value_of, self._depth = text, value_of, depth
        self._position = 0
        if depth > _MAX_DEPTH:
            raise ValueError(Sentence("is nested deeper than {} levels", _MAX_DEPTH))

    def whole(self) -> int:
        if not self._text.strip():
            return 0
        value = self._level(0)
        if self._text[self._position :].strip():
            raise self._undecided()
        return value

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._position)

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        value = self._level(level + 1)
        while (match := self._next()) and match[3] in _LEVELS[level]:
            self._position = match.end()
            right = self._inner(level) if level == _POWER else self._level(level + 1)
            value = int(_LEVELS[level][match[3]](value, right))
            if not -_LIMIT <= value < _LIMIT:
                raise ValueError("leaves 64 bits")
        return value

    def _unary(self) -> int:
        match = self._next()
        if match is None:
            raise self._undecided()
        self._position = match.end()
        if match[1]:
            return _number(match[1])
        if match[2]:
            return _Expression(self._value_of(match[2]), self._value_of, self._depth + 1).whole()
        if match[3] in "+-!":
            value = self._inner(len(_LEVELS))
            return {"+": value, "-": -value, "!": int(not value)}[match[3]]
        if match[3] != "(":
            raise self._undecided()
        value = self._inner(0)
        closing = self._next()
        if closing is None or closing[3] != ")":
            raise self._undecided()
        self._position = closing.end()
        return value

    def _inner(self, level: int) -> int:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(Sentence("is nested deeper than {} levels", _MAX_DEPTH))
        value = self._level(level)
        self._depth -= 1
        return value

    def _undecided(self) -> Undecided:
        return Undecided(Sentence("{!r} is more than whole numbers and + - * / %", self._text.strip()[:60]))

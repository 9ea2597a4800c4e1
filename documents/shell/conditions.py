"""Outcomes of conditions that follow from the script itself; ``None`` for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from documents.shell.text import Text, text_of, unknown_in

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_SIGNS = ("!", "(", ")", "&&", "||", "-a", "-o")
MAX_WORDS = 200


def negated(outcome: bool | None) -> bool | None:
    """The opposite outcome."""
    return None if outcome is None else not outcome


def both(first: bool | None, second: bool | None) -> bool | None:
    """Whether both hold; ``False`` if one is known not to."""
    return False if False in (first, second) else None if None in (first, second) else True


def decided(words: Sequence[Text], is_set: Callable[[str], bool]) -> bool | None:
    """The outcome of ``[ words ]`` or ``[[ words ]]``."""
    if len(words) > MAX_WORDS:
        return None
    return _Condition(words, is_set).whole()


class _Condition:
    def __init__(self, words: Sequence[Text], is_set: Callable[[str], bool]) -> None:
        self._words, self._is_set, self._index = words, is_set, 0

    def whole(self) -> bool | None:
        try:
            outcome = self._any()
        except IndexError:
            return None
        return outcome if self._index == len(self._words) else None

    def _text(self, offset: int = 0) -> str:
        return text_of(self._words[self._index + offset])

    def _sign(self, *signs: str) -> bool:
        if self._index >= len(self._words) or self._text() not in signs:
            return False
        if any(fragment.is_quoted for fragment in self._words[self._index]):
            return False
        self._index += 1
        return True

    def _any(self) -> bool | None:
        outcome = self._all()
        while self._sign("||", "-o"):
            outcome = negated(both(negated(outcome), negated(self._all())))
        return outcome

    def _all(self) -> bool | None:
        outcome = self._one()
        while self._sign("&&", "-a"):
            outcome = both(outcome, self._one())
        return outcome

    def _one(self) -> bool | None:
        if self._sign("!"):
            return negated(self._one())
        if self._sign("("):
            outcome = self._any()
            return outcome if self._sign(")") else None
        left = self._words[self._index]
        word = text_of(left)
        rest = len(self._words) - self._index
        if rest >= 3 and self._text(1) in ("=", "==", "!=", "<", ">", "=~", *_COMPARED):
            operator, right = self._text(1), self._words[self._index + 2]
            self._index += 3
            return _compared(left, operator, right)
        if rest >= 2 and re.fullmatch(r"-[a-zA-Z]", word) and self._text(1) not in _SIGNS:
            operand = self._words[self._index + 1]
            self._index += 2
            return self._unary(word, operand)
        self._index += 1
        if word in ("-z", "-n"):  # nothing was left of its operand
            return word == "-z"
        return None if unknown_in(left) else bool(word)

    def _unary(self, operator: str, operand: Text) -> bool | None:
        if operator == "-v":
            return True if self._is_set(text_of(operand)) else None
        if operator not in ("-z", "-n"):
            return None
        known = text_of(fragment for fragment in operand if not fragment.unknown)
        if unknown_in(operand) and not known:
            return None
        return bool(known) == (operator == "-n")


def _compared(left: Text, operator: str, right: Text) -> bool | None:
    if unknown_in(left) or unknown_in(right):
        return None
    if operator in _COMPARED:
        numbers = [text_of(side).strip() for side in (left, right)]
        if not all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", number) for number in numbers):
            return None  # 010 is 10 in "[" and 8 in "[["
        return _COMPARED[operator](int(numbers[0]), int(numbers[1]))
    is_pattern = any(not fragment.is_quoted and re.search(r"[*?\[]", fragment.text) for fragment in right)
    if operator in ("<", ">", "=~") or is_pattern:
        return None
    return (text_of(left) == text_of(right)) == (operator != "!=")

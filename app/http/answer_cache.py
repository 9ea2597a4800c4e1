"""Answers that are kept: planning tools ask the same again and again, and a version gives the same each time."""

from __future__ import annotations

from collections import OrderedDict

from documents.hashing import sha256_of

MAX_BYTES = 16 * 2**20


class AnswerCache:
    """Answers by question, those that were asked longest ago dropped first. Used in the event loop alone."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def find(self, question: str) -> bytes | None:
        """The answer that was given before."""
        key = sha256_of(question)
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, question: str, answer: bytes) -> None:
        """Remembers the answer for the next who ask."""
        key = sha256_of(question)
        self._num_bytes += len(answer) - len(self._answers.get(key, b""))
        self._answers[key] = answer
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= len(self._answers.popitem(last=False)[1])

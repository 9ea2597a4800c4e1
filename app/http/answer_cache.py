"""A cache of answers: planning tools repeat questions, and one version always gives the same answer."""

from __future__ import annotations

from collections import OrderedDict

from documents.hashing import sha256_of

MAX_BYTES = 8 * 2**20


class AnswerCache:
    """Answers by question; the least recently used are dropped first. For use in the event loop only."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def find(self, question: str) -> bytes | None:
        """The cached answer, or None."""
        key = sha256_of(question)
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, question: str, answer: bytes) -> None:
        """Store the answer."""
        key = sha256_of(question)
        self._num_bytes += len(answer) - len(self._answers.get(key, b""))
        self._answers[key] = answer
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= len(self._answers.popitem(last=False)[1])

"""Answers that are kept: planning tools ask the same again and again, and a version gives the same each time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from documents.hashing import sha256_of

MAX_BYTES = 16 * 2**20


class KeptAnswers:
    """Answers by question, those that were asked longest ago dropped first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: str, answer: Callable[[], bytes]) -> bytes:
        """The answer that was given before, or ``answer``'s, which is kept unless it raises."""
        key = sha256_of(question)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        found = answer()
        with self._lock:
            self._num_bytes += len(found) - len(self._answers.get(key, b""))
            self._answers[key] = found
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= len(self._answers.popitem(last=False)[1])
        return found

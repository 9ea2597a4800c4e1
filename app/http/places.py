"""Places for requests that hold something for long, shared among owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class NoPlaceError(Exception):
    """All places are taken, or the owner holds as many as are left for others."""


class Places:
    """``most`` places. An owner may take one while it holds fewer than are free, so that one alone gets half of them.

    Callers without an owner, on a server without keys, may take all. For use in the event loop only.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: Counter[str | None] = Counter()

    @property
    def num_free(self) -> int:
        return self.most - self._taken.total()

    @contextmanager
    def taken(self, owner: str | None) -> Iterator[None]:
        """A place inside the block; ``NoPlaceError`` if there is none for this owner."""
        if not self.num_free or (owner is not None and self._taken[owner] >= self.num_free):
            raise NoPlaceError
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

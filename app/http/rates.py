"""Rate limits, counted in this process for a bounded number of names."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_NAMES = 10_000
_BURST_S = 10.0  # a burst may have the requests of this many seconds


class Rates:
    """Rate limits by the generic cell rate algorithm (ITU-T I.371).

    It keeps one time for each name: when its requests so far would have ended at an even rate. Names with the oldest requests
    are dropped first.
    """

    def __init__(self, max_names: int = MAX_NAMES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_names, self._clock = max_names, clock
        self._even_s: OrderedDict[Hashable, float] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: Hashable, a_minute: int, *, at_once: int | None = None) -> float:
        """Count a request and return 0 if it is allowed now, otherwise the seconds until it is. [s]"""
        with self._lock:
            wait_s, now_s = self._wait_s(name, a_minute, at_once)
            if wait_s <= 0.0:
                self._even_s[name] = max(now_s, self._even_s.get(name, now_s)) + 60.0 / a_minute
                self._even_s.move_to_end(name)
                while len(self._even_s) > self._max_names:
                    self._even_s.popitem(last=False)
            return wait_s

    def wait_s(self, name: Hashable, a_minute: int, *, at_once: int | None = None) -> float:
        """Seconds until a request is allowed, without counting one. [s]"""
        with self._lock:
            return self._wait_s(name, a_minute, at_once)[0]

    def _wait_s(self, name: Hashable, a_minute: int, at_once: int | None) -> tuple[float, float]:
        now_s, interval_s = self._clock(), 60.0 / a_minute
        burst = max(1.0, a_minute * _BURST_S / 60.0 if at_once is None else float(at_once))
        return max(0.0, self._even_s.get(name, now_s) - now_s - (burst - 1.0) * interval_s), now_s


class Known:
    """A bounded set of seen names; the oldest are dropped first."""

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        self._max_names = max_names
        self._names: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        with self._lock:
            self._names[name] = None
            self._names.move_to_end(name)
            while len(self._names) > self._max_names:
                self._names.popitem(last=False)

    def discard(self, name: str) -> None:
        with self._lock:
            self._names.pop(name, None)

"""State that the requests of one server share."""

from __future__ import annotations

import threading
from dataclasses import field

from anyio import CapacityLimiter
from fastapi import Request

from app.http.answer_cache import AnswerCache
from app.http.keys import KeyLimits
from app.http.large_bodies import LargeBodies
from app.http.metrics import Metrics
from app.http.places import Places
from app.http.pricing import Pricing
from app.http.rates import Known, Rates
from app.storage.session import Database
from documents.late_methods import dataclass

WRONG_KEYS_A_MINUTE = 30  # connections from one address
SEARCHES_AT_ONCE, SEARCHES_WAITING = 3, 64


class Searches:
    """Text searches of lists: how many run at once, and how many may wait for those."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(SEARCHES_AT_ONCE)
        self.places = Places(SEARCHES_WAITING)


@dataclass(frozen=True)
class ServerState:
    """Shared state. ``stopping`` is set when the server must end, so that open streams end too."""

    database: Database
    keys_required: bool
    pricing: Pricing
    limits: KeyLimits = field(default_factory=KeyLimits)  # limits of a key without its own
    wrong_keys_a_minute: int = WRONG_KEYS_A_MINUTE
    keep_studies_days: int = 0  # 0: for ever
    rates: Rates = field(default_factory=Rates)
    known_keys: Known = field(default_factory=Known)  # digests of keys that were valid when used
    metrics: Metrics = field(default_factory=Metrics)
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    kept_answers: AnswerCache = field(default_factory=AnswerCache)
    searches: Searches = field(default_factory=Searches)
    stopping: threading.Event = field(default_factory=threading.Event)
    in_flight: set[tuple[str, str]] = field(default_factory=set)  # (caller, idempotency key) of running requests
    in_flight_lock: threading.Lock = field(default_factory=threading.Lock)


def state_of(request: Request) -> ServerState:
    state = request.app.state.server
    assert isinstance(state, ServerState)
    return state

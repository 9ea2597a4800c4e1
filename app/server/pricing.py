"""Pricing in threads and in processes, for ``app.http.pricing``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, to_thread

from app.answers.batches import EstimateBatches
from app.answers.parts import Part
from app.http.problems import ServiceError
from app.storage.session import Database
from app.workers.calls import Answer, Call, CallOptions, EstimateCall, answers
from app.workers.pool import Pool, PoolFullError, ProcessDiedError
from documents.sentences import Sentence

ESTIMATES_AT_ONCE = 32  # most requests priced together: with more, the first would wait for the last
ESTIMATES_WAITING, ADVICE_WAITING, HEAVY_WAITING = 1024, 512, 256
LIGHT_PROCESSES = HEAVY_PROCESSES = min(2, os.cpu_count() or 1)
ADVICE_NICENESS, HEAVY_NICENESS = 5, 10  # light requests get the cores first; running searches must not starve others
_RETRY_AFTER_S = 5


class PricingInThreads:
    """Pricing in threads of this process, for applications without a server, such as tests."""

    def __init__(self, database: Database) -> None:
        self._database, self._batches = database, EstimateBatches(database)
        self._one, self._few = CapacityLimiter(1), CapacityLimiter(HEAVY_PROCESSES)

    async def estimate(self, request: dict[str, Any], parts: frozenset[Part], owner: str | None) -> bytes:
        return await self._in_thread(EstimateCall(request, parts, advised=True), self._one)

    async def heavy(self, function: Callable[..., Any], arguments: dict[str, Any], owner: str | None) -> bytes:
        return await self._in_thread(Call(function, arguments), self._few)

    async def _in_thread(self, call: Call | EstimateCall, limiter: CapacityLimiter) -> bytes:
        (found,) = await to_thread.run_sync(lambda: answers([call], self._batches, self._database), limiter=limiter)
        return _content(found)


class PricingInProcesses:
    """Pricing in child processes, so that the interpreter of this process serves its callers.

    Owners take turns. Estimates that arrive during a pricing are priced together. Suggestions of runs and heavy requests have
    processes of low priority. A request whose task is cancelled is priced no further.
    """

    def __init__(self, url: str) -> None:
        self._light = Pool(
            "estimates",
            CallOptions(url),
            num_processes=LIGHT_PROCESSES,
            at_once=ESTIMATES_AT_ONCE,
            max_waiting=ESTIMATES_WAITING,
            is_ready=True,
        )
        self._advice = Pool("advice", CallOptions(url, ADVICE_NICENESS), num_processes=1, max_waiting=ADVICE_WAITING)
        self._heavy = Pool("pricing", CallOptions(url, HEAVY_NICENESS), num_processes=HEAVY_PROCESSES, max_waiting=HEAVY_WAITING)
        self.pools = (self._light, self._advice, self._heavy)

    async def estimate(self, request: dict[str, Any], parts: frozenset[Part], owner: str | None) -> bytes:
        found = await _asked(self._light, EstimateCall(request, parts, advised=False), owner)
        if found == Answer():
            found = await _asked(self._advice, EstimateCall(request, parts, advised=True), owner)
        return _content(found)

    async def heavy(self, function: Callable[..., Any], arguments: dict[str, Any], owner: str | None) -> bytes:
        return _content(await _asked(self._heavy, Call(function, arguments), owner))

    def stop(self) -> None:
        for pool in self.pools:
            pool.stop()


async def _asked(pool: Pool, call: Call | EstimateCall, owner: str | None) -> Answer:
    try:
        future = pool.submit(call, owner)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            pool.abandon(future)
            raise
    except PoolFullError:
        detail = Sentence("As many requests wait to be priced as may.")
    except ProcessDiedError:
        detail = Sentence("The process that priced this request died.")
    raise ServiceError("unavailable", detail, headers={"Retry-After": str(_RETRY_AFTER_S)})


def _content(answer: Answer) -> bytes:
    if answer.error is not None:
        raise answer.error
    if answer.away is not None:
        detail, hint = answer.away
        raise ServiceError("unavailable", detail, hint=hint, headers={"Retry-After": "2"})
    if answer.fault is not None or answer.value is None:
        raise RuntimeError(answer.fault or "nothing was answered")
    return answer.value

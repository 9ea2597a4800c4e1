"""Pricing for a request while its caller waits: it ends as soon as the caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.http.security import authorize
from app.http.state import state_of


async def estimated(request: Request, document: dict[str, Any], parts: frozenset[Any]) -> bytes:
    """``Pricing.estimate`` for the caller of the request; ``ClientDisconnect`` if it goes away."""
    return await _while_waiting(request, state_of(request).pricing.estimate(document, parts, authorize(request).owner))


async def heavily_priced(request: Request, function: Callable[..., Any], **arguments: Any) -> bytes:
    """``Pricing.heavy`` for the caller of the request; ``ClientDisconnect`` if it goes away."""
    return await _while_waiting(request, state_of(request).pricing.heavy(function, arguments, authorize(request).owner))


async def _while_waiting(request: Request, pricing: Coroutine[Any, Any, bytes]) -> bytes:
    priced, gone = asyncio.ensure_future(pricing), asyncio.ensure_future(_departure(request))
    try:
        await asyncio.wait((priced, gone), return_when=asyncio.FIRST_COMPLETED)
        if priced.done():
            return priced.result()
        raise ClientDisconnect
    finally:
        gone.cancel()
        priced.cancel()


async def _departure(request: Request) -> None:
    """Return once the caller has gone; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

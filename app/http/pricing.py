"""Pricing for requests: light and heavy requests are separate, so that light ones never wait for heavy ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Pricing(Protocol):
    """Pricing by turns of owners; None is the owner of callers on a server without keys. A cancelled call ends."""

    async def estimate(self, request: dict[str, Any], parts: frozenset[Any], owner: str | None) -> bytes:
        """Answer a request for the price of one strategy in closed form, with these parts (``app.answers.parts``)."""
        ...

    async def heavy(self, function: Callable[..., Any], arguments: dict[str, Any], owner: str | None) -> bytes:
        """Call a function with these arguments and ``database``; return its document or text as bytes."""
        ...

"""Who prices for requests: light questions and heavy ones apart, so that the former never wait behind the latter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Pricing(Protocol):
    """What endpoints ask."""

    async def estimate(self, request: dict[str, Any]) -> bytes:
        """The answer to a request for the price of one strategy in closed form."""
        ...

    async def heavy(self, function: Callable[..., Any], **arguments: Any) -> bytes:
        """What a function of these arguments and ``database`` returns, a document or text, as it is sent."""
        ...

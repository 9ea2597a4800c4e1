"""What a caller asked for ends with the caller, and a caller who sends slowly holds no place of others."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import httpx
import pytest

from app.http import keys
from app.server.pricing import PricingInThreads
from app.storage.session import Database
from tests.api.sockets import serving

ESTIMATE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "strategy": {"tp": 8, "pp": 1, "cp": 1},
}
LARGE_BYTES = 300_000


class Endless:
    """Pricing that never ends by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owners: list[str | None] = []
        self.has_begun, self.was_cancelled = threading.Semaphore(0), threading.Semaphore(0)

        async def price(pricing: object, *given: Any) -> bytes:
            self.owners.append(given[-1])
            self.has_begun.release()
            try:
                await asyncio.sleep(60)
            finally:
                self.was_cancelled.release()
            return b"{}"

        for name in ("heavy", "estimate"):
            monkeypatch.setattr(PricingInThreads, name, price)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        *((f"POST /v1/{path}", ESTIMATE) for path in ("checks", "sweeps", "estimates", "explanations", "goodput")),
        ("POST /v1/serving/estimates", ESTIMATE),
        ("POST /v1/runs", {"runs": [{}]}),
        ("GET /v1/runs?predicted=true", {}),
        ("POST /v1/calibrations", {"hardware": "atlas-800t-a2", "stack": "mindspeed-llm"}),
    ],
)
def test_the_price_of_a_caller_who_has_gone_is_cancelled(
    asked: str, given: dict[str, Any], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pricing = Endless(monkeypatch)
    with database.write() as session:
        _, secret = keys.create_key(session, "ada", ("read", "write"), None)
    with serving(database, keys_required=True) as address:
        body = json.dumps(given)
        with socket.create_connection(address, timeout=10) as caller:
            head = f"{asked} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            caller.sendall(head.encode())
            assert pricing.has_begun.acquire(timeout=10)
        assert pricing.was_cancelled.acquire(timeout=10)
        assert pricing.owners == ["ada"]


def test_chunked_bodies_that_begin_and_do_not_end_leave_large_bodies_alone(database: Database) -> None:
    with database.write() as session:
        secrets = {name: keys.create_key(session, name, ("read",), None)[1] for name in ("eve", "bob")}
    with serving(database, keys_required=True) as address:
        slow = [socket.create_connection(address, timeout=10) for _ in range(20)]
        for number, caller in enumerate(slow):
            head = f"POST /v1/estimates HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secrets['eve']}\r\n"
            head += "Content-Type: application/json\r\n"
            # Some announce no length, some announce a large body: those of one owner leave a place to others.
            head += "Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n" if number % 2 else f"Content-Length: {LARGE_BYTES}\r\n\r\n "
            caller.sendall(head.encode())
        content = json.dumps({**ESTIMATE, "strategies": [{"tp": 3}], "name": "x" * LARGE_BYTES})
        answer = httpx.post(
            f"http://{address[0]}:{address[1]}/v1/estimates",
            content=content,
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {secrets['bob']}"},
            timeout=10,
        )
        assert answer.status_code == 422
        for caller in slow:
            caller.close()

"""HTTP connections with limits on their number, the size of headers, and the time of a caller.

uvicorn bounds none of these but the header, and that only with h11, which also refuses a second Host header.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from app.http.problems import KINDS, MEDIA_TYPE, ServiceError, problem_document
from documents.sentences import Sentence

FILES_KEPT_FREE = 256  # open files reserved for the database, workers, files and callers about to be refused
MAX_STATUS_LINE_AND_HEADERS = 32 * 1024
_LINGER_S = 2.0  # seconds to read a refusal before the connection is cut
_KIND_OF_STATUS = {431: "headers-too-large"}

log = structlog.get_logger("meshplan.http")


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits. ``body_silence_s``: between two pieces of a body; ``write_s``: for a caller to read its answer."""

    connections: int = 2000
    header_bytes: int = MAX_STATUS_LINE_AND_HEADERS
    header_s: float = 10.0
    body_silence_s: float = 15.0
    body_s: float = 120.0
    write_s: float = 60.0
    keep_alive_s: float = 30.0


def limits_of_this_process(limits: ConnectionLimits | None = None) -> ConnectionLimits:
    """Connection limit = open-file limit, after raising it to the hard limit."""
    limits = limits or ConnectionLimits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + FILES_KEPT_FREE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=max(16, min(limits.connections, soft - FILES_KEPT_FREE)))


class Connections:
    """The connections of one server. All are checked several times within the shortest time limit."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[BoundedProtocol, None] = {}  # oldest first
        self._sweeping: asyncio.TimerHandle | None = None
        self._period_s = min(1.0, min(limits.header_s, limits.body_silence_s, limits.body_s, limits.write_s) / 4)

    @property
    def protocol(self) -> Any:
        """The protocol factory for uvicorn."""
        return partial(BoundedProtocol, self)

    def add(self, connection: BoundedProtocol) -> bool:
        """Add a connection if there is room; if full, the oldest idle connection is closed."""
        if len(self.open) >= self.limits.connections:
            idle = next((other for other in self.open if other.is_idle), None)
            if idle is None:
                return False
            idle.cut()
        self.open[connection] = None
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(self._period_s, self._sweep, connection.loop)
        return True

    def remove(self, connection: BoundedProtocol) -> None:
        self.open.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for connection in list(self.open):
            connection.look(now_s)
        self._sweeping = loop.call_later(self._period_s, self._sweep, loop) if self.open else None


class BoundedProtocol(H11Protocol):
    """A connection of uvicorn that is refused or cut if it exceeds a limit."""

    def __init__(self, connections: Connections, config: Any, **given: Any) -> None:
        config.h11_max_incomplete_event_size = connections.limits.header_bytes
        super().__init__(config, **given)
        self._connections = connections
        self._begun_s: float | None = None  # the header being received; None between requests
        self._body_begun_s = self._received_s = 0.0
        self._unread_since_s: float | None = None  # bytes that we wrote
        self._is_refused = False

    @property
    def is_idle(self) -> bool:
        """Whether no request is open."""
        return self._is_refused or self.conn.their_state is h11.IDLE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begun_s = self.loop.time()
        if not self._connections.add(self):
            self._refuse(
                "unavailable", Sentence("The server holds {:,} connections already.", self._connections.limits.connections)
            )
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self._received_s = self.loop.time()
        if self._begun_s is None and self.is_idle:
            self._begun_s = self._received_s
        super().data_received(data)
        if not self.is_idle and self._begun_s is not None:
            self._begun_s, self._body_begun_s = None, self._received_s

    def look(self, now_s: float) -> None:
        """End the connection if its caller has taken too long."""
        limits = self._connections.limits
        if self._is_refused or self.transport.is_closing():
            return
        if self._unread_since_s is not None and now_s - self._unread_since_s > limits.write_s:
            self.cut()
        elif self.is_idle:
            if self._begun_s is not None and now_s - self._begun_s > limits.header_s:
                self._refuse("timeout", Sentence("No whole request came within {:g} s.", limits.header_s))
        elif self.conn.their_state is h11.SEND_BODY:
            if self.flow.read_paused:  # we are not reading, so the caller is not late
                waited_s = self._connections._period_s
                self._body_begun_s, self._received_s = self._body_begun_s + waited_s, now_s
            elif now_s - self._received_s > limits.body_silence_s:
                self._refuse("timeout", Sentence("Nothing more of the body came for {:g} s.", limits.body_silence_s))
            elif now_s - self._body_begun_s > limits.body_s:
                self._refuse("timeout", Sentence("The body did not come within {:g} s.", limits.body_s))

    def pause_writing(self) -> None:
        self._unread_since_s = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since_s = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        status = getattr(error, "error_status_hint", 400)
        self._refuse(_KIND_OF_STATUS.get(status, "not-http"), Sentence("{}.", (str(error) if error else msg).rstrip(".")))

    def cut(self) -> None:
        self._connections.remove(self)
        self.transport.abort()

    def _refuse(self, kind: str, detail: str) -> None:
        """Send an answer if still possible, and close the connection."""
        log.info("connection refused", kind=kind, client=self.client[0] if self.client else None)
        self._is_refused = True
        self._unset_keepalive_if_required()
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]  # None until a request
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        status = KINDS[kind][0]
        body = problem_document(ServiceError(kind, detail), "none").model_dump_json().encode()
        head = (
            f"HTTP/1.1 {status} {STATUS_PHRASES[status].decode()}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # Further input is read and dropped: closing at once would lose the answer for a caller that is still sending.
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

"""HTTP connections with limits on their number, by address too, the size of headers, and the progress of a caller.

uvicorn bounds none of these but the header, and that only with h11, which also refuses a second Host header.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
from collections import Counter, OrderedDict, deque
from dataclasses import replace
from functools import partial
from typing import Any

import h11
import structlog
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from app.http.addresses import NO_PROXIES, Proxies, network_of
from app.http.problems import KINDS, MEDIA_TYPE, ServiceError, problem_document
from app.server.framing import StrictConnection
from documents.late_methods import dataclass
from documents.sentences import Sentence

HEALTH_PATHS = ("/healthz", "/readyz")
FILES_KEPT_FREE = 256  # open files reserved for the database, workers, files and callers about to be refused
MAX_STATUS_LINE_AND_HEADERS = 32 * 1024
_LINGER_S = 2.0  # seconds to read a refusal before the connection is cut
_NOW = struct.pack("ii", 1, 0)
_UNSENT_BYTES = 64 * 1024  # of answers that the system holds for one caller beside those on their way
_BUSY_S = 0.1
_STARTS = 4  # requests that begin in one round of the event loop
_FLOOD = 64  # waiting requests from which newcomers go first: the loop accepts few in a round
_FLOOD_S = 0.05  # longest time that newcomers go first
_UNREAD_KEPT = 0.75  # of the limit on unread bytes, after some were dropped
_STALLED_S = 2.0  # a caller that has moved nothing for so long gives up its place to the next
_KIND_OF_STATUS = {431: "headers-too-large", 505: "http-version"}

log = structlog.get_logger("meshplan.http")


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits. ``of_address``: the share of the connections that one address may hold; an IPv6 network of 64 bits is one.

    ``for_health``: places beside the others, for requests of ``HEALTH_PATHS`` alone. ``body_silence_s``: between two pieces of
    a body. ``bytes_per_s``: the least that a caller must send of a body in every ``slow_s``, and read of an answer in every
    ``write_s``. ``unread_bytes``: of answers that wait for their readers, all connections together.
    """

    connections: int = 2000
    of_address: float = 0.75
    for_health: int = 128
    header_bytes: int = MAX_STATUS_LINE_AND_HEADERS
    header_s: float = 10.0
    body_silence_s: float = 15.0
    body_s: float = 120.0
    slow_s: float = 10.0
    write_s: float = 30.0
    bytes_per_s: float = 1024.0
    unread_bytes: int = 64 * 2**20
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
    """The connections of one server. All are checked several times within the shortest time limit.

    ``proxies`` hold connections for callers of many addresses, so that the share of one address does not bound them.
    """

    def __init__(self, limits: ConnectionLimits, proxies: Proxies = NO_PROXIES) -> None:
        self.limits, self._proxies = limits, proxies
        self.open: dict[BoundedProtocol, None] = {}  # oldest first
        self.for_health: dict[BoundedProtocol, None] = {}  # beyond the limit
        self._unread: dict[BoundedProtocol, int] = {}  # bytes of answers that waited for their reader at the last look
        self._num_unread = 0  # their sum
        self.starts = Starts()
        self._of_address: Counter[str] = Counter()
        self._busy_until_s: dict[str | None, float] = {}  # nobody gives up a place before, by network
        self._sweeping: asyncio.TimerHandle | None = None
        self.period_s = min(1.0, min(limits.header_s, limits.body_silence_s, limits.slow_s, limits.write_s) / 4)

    @property
    def protocol(self) -> Any:
        """The protocol factory for uvicorn."""
        return partial(BoundedProtocol, self)

    @property
    def most_of_address(self) -> int:
        return max(1, int(self.limits.connections * self.limits.of_address))

    def add(self, connection: BoundedProtocol) -> str | None:
        """Add a connection; the sentence says why it has only a place for a request of ``HEALTH_PATHS``.

        If all places are taken, the oldest caller that asks nothing, or is stalled, gives up its own.
        """
        network, why = connection.network, None
        is_proxy = self._proxies.trusts(connection.address)
        if not is_proxy and self._of_address[network] >= self.most_of_address and not self._freed(connection, network):
            why = Sentence("The address of the caller holds {:,} connections already.", self.most_of_address)
        elif len(self.open) >= self.limits.connections and not self._freed(connection):
            why = Sentence("The server holds {:,} connections already.", self.limits.connections)
        if why is None:
            self.open[connection] = None
            self._of_address[network] += 1
        else:
            if len(self.for_health) >= self.limits.for_health:
                self._busiest_for_health().cut()
            self.for_health[connection] = None
        self.starts.has_newcomer = True
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(self.period_s, self._sweep, connection.loop)
        return why

    def _freed(self, newcomer: BoundedProtocol, network: str | None = None) -> bool:
        """Cut the oldest connection, of the network if one is given, whose caller does nothing; False if there is none."""
        now_s = newcomer.loop.time()
        if now_s < self._busy_until_s.get(network, 0.0):
            return False
        chosen = next((other for other in self.open if network in (None, other.network) and other.is_stalled), None)
        if chosen is None:
            self._busy_until_s = {network: now_s + _BUSY_S}  # a flood of newcomers must not look through all each time
            return False
        chosen.cut()
        return True

    def _busiest_for_health(self) -> BoundedProtocol:
        """The oldest connection of the address that has most of these places."""
        networks = Counter(each.network for each in self.for_health)
        (busiest, _), *_ = networks.most_common(1)
        return next(each for each in self.for_health if each.network == busiest)

    def remove(self, connection: BoundedProtocol) -> None:
        self.resume(connection)
        self.for_health.pop(connection, None)
        if connection in self.open:
            del self.open[connection]
            self._of_address[connection.network] -= 1
            if not self._of_address[connection.network]:
                del self._of_address[connection.network]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for connection in [*self.open, *self.for_health]:
            connection.look(now_s)
        self._bound_unread()
        self._sweeping = loop.call_later(self.period_s, self._sweep, loop) if self.open or self.for_health else None

    def pause(self, connection: BoundedProtocol) -> None:
        """Note that an answer waits for its reader, and cut others if too much waits."""
        self._note(connection)
        if self._num_unread > self.limits.unread_bytes:
            self._bound_unread()

    def resume(self, connection: BoundedProtocol) -> None:
        """Note that nothing of an answer waits any more."""
        self._num_unread -= self._unread.pop(connection, 0)

    def _note(self, connection: BoundedProtocol) -> None:
        unread = connection.unread_bytes
        self._num_unread += unread - self._unread.get(connection, 0)
        self._unread[connection] = unread

    def _bound_unread(self) -> None:
        """Cut those who have not read the longest, until what waits for its readers is within the limit."""
        for connection in [*self._unread]:
            self._note(connection)
        kept: float = self.limits.unread_bytes
        if self._num_unread > kept:
            kept *= _UNREAD_KEPT  # so that a flood of answers is not looked through at each of them
        for connection in sorted(self._unread, key=lambda each: each.taken_s):
            if self._num_unread <= kept:
                return
            connection.cut()


class Starts:
    """The order in which requests begin: networks take turns, and a flood of requests leaves the loop free for others."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by network, in order of their turns
        self._num_waiting = 0
        self._is_due = self.has_newcomer = False
        self._granted_s = 0.0

    async def turn(self, network: str) -> None:
        """Return when a request of this network may begin."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(network, deque()).append(turn)
        self._num_waiting += 1
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._grant, loop)
        await turn

    def _grant(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        yields = self.has_newcomer and self._num_waiting > _FLOOD and now_s - self._granted_s < _FLOOD_S
        self.has_newcomer = False
        if not yields:
            self._granted_s = now_s
            for _ in range(min(_STARTS, self._num_waiting)):
                self._grant_next()
        self._is_due = bool(self._num_waiting)
        if self._is_due:
            loop.call_soon(self._grant, loop)

    def _grant_next(self) -> None:
        network, turns = self._waiting.popitem(last=False)
        turn = turns.popleft()
        self._num_waiting -= 1
        if turns:
            self._waiting[network] = turns
        if not turn.done():
            turn.set_result(None)


class _Pace:
    """The pace of one caller: bytes that it moves in windows of time."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._begun_bytes = 0

    def is_slow(self, now_s: float, moved_bytes: int, window_s: float, least_bytes: float) -> bool:
        """Whether a window has passed in which less was moved. ``moved_bytes``: all so far."""
        if self._begun_s is not None and now_s - self._begun_s < window_s:
            return False
        is_slow = self._begun_s is not None and moved_bytes - self._begun_bytes < least_bytes
        self._begun_s, self._begun_bytes = now_s, moved_bytes
        return is_slow

    def rest(self) -> None:
        """Nothing is to be moved now."""
        self._begun_s = None


class BoundedProtocol(H11Protocol):
    """A connection of uvicorn that is refused or cut if it exceeds a limit."""

    def __init__(self, connections: Connections, config: Any, **given: Any) -> None:
        config.h11_max_incomplete_event_size = connections.limits.header_bytes
        super().__init__(config, **given)
        self.conn = StrictConnection(connections.limits.header_bytes)
        self._connections = connections
        self.address = self.network = "unknown"
        self._begun_s: float | None = None  # the header being received; None between requests
        self._body_begun_s = self._received_s = self.taken_s = 0.0  # taken: the system last took a part of an answer
        self._received_bytes = self._written_bytes = self._taken_bytes = 0
        self._sending, self._reading = _Pace(), _Pace()
        self._is_refused = False
        self._why_health_only: str | None = None
        self._application, self.app = self.app, self._answer

    @property
    def is_idle(self) -> bool:
        """Whether no request is open."""
        return self._is_refused or self.conn.their_state is h11.IDLE

    @property
    def is_stalled(self) -> bool:
        """Whether the caller asks nothing, or has neither sent nor read anything for a while."""
        if self.is_idle:
            return True
        now_s = self.loop.time()
        if self.unread_bytes:
            return now_s - self.taken_s > _STALLED_S
        return self._is_sending and now_s - self._received_s > _STALLED_S

    @property
    def _is_sending(self) -> bool:
        """Whether the next thing to come is a part of the caller's body."""
        return self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers in this process that the system cannot take, because the caller does not read."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self.address = self.client[0] if self.client else "unknown"
        self.network = network_of(self.address)
        self._begun_s = self.taken_s = self.loop.time()
        self._why_health_only = self._connections.add(self)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application; a connection beyond the limit gets the answer to one request of ``HEALTH_PATHS`` or none."""

        async def counted(message: Message) -> None:
            await send(message)
            self._written_bytes += len(message.get("body", b""))

        if self._why_health_only is not None:
            self.cycle.keep_alive = False
            if scope["path"] not in HEALTH_PATHS:
                self._refuse("unavailable", self._why_health_only)
                return
        if scope["path"] not in HEALTH_PATHS:
            await self._connections.starts.turn(self.network)
        await self._application(scope, receive, counted)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self._is_refused and not self.transport.is_closing():
            self._is_refused = True  # the answer came before the body did, which nobody needs any more
            self._unset_keepalive_if_required()
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self._received_s = self.loop.time()
        self._received_bytes += len(data)
        if self._begun_s is None and self.is_idle:
            self._begun_s = self._received_s
        super().data_received(data)
        if not self.is_idle and self._begun_s is not None:
            self._begun_s, self._body_begun_s = None, self._received_s
            self._sending.rest()

    def look(self, now_s: float) -> None:
        """End the connection if its caller has taken too long."""
        if self._is_refused or self.transport.is_closing():
            return
        self._look_at_reading(now_s)
        if self.is_idle:
            limit_s = self._connections.limits.header_s
            if (
                self._why_health_only is not None
                and self._begun_s is not None
                and now_s - self._begun_s > min(limit_s, _STALLED_S)
            ):
                self._refuse("unavailable", self._why_health_only)
            elif self._begun_s is not None and now_s - self._begun_s > limit_s:
                self._refuse("timeout", Sentence("No whole request came within {:g} s.", limit_s))
        elif self.conn.their_state is h11.SEND_BODY:
            self._look_at_body(now_s)

    def _look_at_reading(self, now_s: float) -> None:
        limits, unread = self._connections.limits, self.unread_bytes
        if self._written_bytes - unread > self._taken_bytes or not unread:
            self._taken_bytes, self.taken_s = self._written_bytes - unread, now_s
        if not unread:
            self._reading.rest()
        elif self._reading.is_slow(now_s, self._taken_bytes, limits.write_s, limits.write_s * limits.bytes_per_s):
            self.cut()

    def _look_at_body(self, now_s: float) -> None:
        limits = self._connections.limits
        if not self._is_sending:  # we are not reading, so the caller is not late
            self._body_begun_s, self._received_s = self._body_begun_s + self._connections.period_s, now_s
            self._sending.rest()
        elif now_s - self._received_s > limits.body_silence_s:
            self._refuse("timeout", Sentence("Nothing more of the body came for {:g} s.", limits.body_silence_s))
        elif now_s - self._body_begun_s > limits.body_s:
            self._refuse("timeout", Sentence("The body did not come within {:g} s.", limits.body_s))
        elif self._sending.is_slow(now_s, self._received_bytes, limits.slow_s, limits.slow_s * limits.bytes_per_s):
            self._refuse("timeout", Sentence("The body comes slower than {:,.0f} bytes a second.", limits.bytes_per_s))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connections.pause(self)

    def resume_writing(self) -> None:
        self._connections.resume(self)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        status = getattr(error, "error_status_hint", 400)
        self._refuse(_KIND_OF_STATUS.get(status, "not-http"), Sentence("{}.", (str(error) if error else msg).rstrip(".")))

    def cut(self) -> None:
        """Close at once; what the system holds for the caller is dropped, too."""
        self._connections.remove(self)
        connected = self.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
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
        self._end()

    def _end(self) -> None:
        """Read and drop further input for a while: closing at once would lose the answer for a caller that is still sending."""
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

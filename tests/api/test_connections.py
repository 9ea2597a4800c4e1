"""Connections that take more than their share, on a real socket: each is refused in a sentence or cut, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.server.connections import (
    FILES_KEPT_FREE,
    BoundedProtocol,
    ConnectionLimits,
    Connections,
    Starts,
    limits_of_this_process,
)
from app.storage.session import Database
from tests.api.sockets import Address, serving
from tests.coroutines import finished

PATIENT = ConnectionLimits()
HURRIED = ConnectionLimits(connections=8, header_s=0.4, body_silence_s=0.4, body_s=1.0, write_s=0.5)


@pytest.fixture
def patient(database: Database) -> Iterator[Address]:
    with serving(database, PATIENT) as address:
        yield address


@pytest.fixture
def hurried(database: Database) -> Iterator[Address]:
    with serving(database, HURRIED) as address:
        yield address


def read_all(caller: socket.socket) -> bytes:
    pieces = []
    while piece := caller.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def problem_of(answer: bytes, status: int, kind: str) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode(), answer
    assert b"application/problem+json" in head
    problem: dict[str, Any] = json.loads(body)
    assert problem["type"] == f"urn:meshplan:problem:{kind}"
    return problem


def answered(address: Address, request: bytes) -> bytes:
    with socket.create_connection(address, timeout=10) as caller:
        caller.sendall(request)
        return read_all(caller)


@contextlib.contextmanager
def begun_by(number: int, address: Address, begun: bytes) -> Iterator[list[socket.socket]]:
    """So many callers that have sent the beginning of a request and hold their connections."""
    with contextlib.ExitStack() as connections:
        held = [connections.enter_context(socket.create_connection(address)) for _ in range(number)]
        for caller in held:
            with contextlib.suppress(ConnectionError):  # beyond the limit, it may be cut already
                caller.sendall(begun)
        yield held


def is_healthy(address: Address) -> bool:
    return httpx.get(f"http://{address[0]}:{address[1]}/healthz", timeout=5).status_code == 200


def test_a_header_of_a_megabyte_is_refused_before_it_is_read_to_its_end(patient: Address) -> None:
    with socket.create_connection(patient, timeout=10) as caller:
        caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Much: ")
        sent = 0
        try:
            for _ in range(256):
                sent += caller.send(b"x" * 4096)
                time.sleep(0.0005)
        except OSError:
            pass
        problem_of(read_all(caller), 431, "headers-too-large")
    assert is_healthy(patient)


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 \r\n\r\n",
    ],
    ids=["two hosts", "no host", "TLS"],
)
def test_what_is_not_one_request_is_refused_as_a_problem(patient: Address, request_text: bytes) -> None:
    assert problem_of(answered(patient, request_text), 400, "not-http")["detail"].endswith(".")


def test_a_caller_that_never_ends_its_header_is_told_and_cut(hurried: Address) -> None:
    with socket.create_connection(hurried, timeout=10) as caller:
        caller.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(8):  # a byte now and then changes nothing
            caller.send(b"X")
            time.sleep(0.05)
        problem = problem_of(read_all(caller), 408, "timeout")
    assert "0.4 s" in problem["detail"]


BEGUN = b"POST /v1/models:import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


def test_a_body_that_stops_coming_is_cut(hurried: Address) -> None:
    assert "body" in problem_of(answered(hurried, BEGUN), 408, "timeout")["detail"]


def test_a_body_that_drips_is_cut(hurried: Address) -> None:
    began_s = time.monotonic()
    with socket.create_connection(hurried, timeout=10) as caller:
        caller.sendall(BEGUN)
        while time.monotonic() - began_s < 2:
            caller.send(b" ")
            time.sleep(0.1)
        problem_of(read_all(caller), 408, "timeout")


def test_a_caller_that_is_quick_is_never_cut_between_two_requests(hurried: Address) -> None:
    with httpx.Client(base_url=f"http://{hurried[0]}:{hurried[1]}") as client:
        assert client.get("/healthz").status_code == 200
        time.sleep(3 * HURRIED.header_s)
        assert client.get("/healthz").status_code == 200


def test_half_open_connections_make_room_for_those_who_ask(hurried: Address) -> None:
    with begun_by(3 * HURRIED.connections, hurried, b"GET /healthz HTTP/1.1\r\n"):
        assert is_healthy(hurried)


def test_beyond_the_limit_of_busy_connections_a_caller_is_refused(database: Database) -> None:
    with serving(database, ConnectionLimits(connections=4, of_address=1.0)) as address, begun_by(4, address, BEGUN) as held:
        time.sleep(0.2)
        with socket.create_connection(address, timeout=10) as caller:
            assert "4 connections" in problem_of(read_all(caller), 503, "unavailable")["detail"]
        held.pop().close()
        time.sleep(0.2)
        assert is_healthy(address)


def test_the_files_that_a_process_may_open_bound_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(soft: int, hard: int) -> tuple[int, list[Any]]:
        raised: list[Any] = []
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda kind, values: raised.append(values))
        return limits_of_this_process(PATIENT).connections, raised

    wanted = PATIENT.connections + FILES_KEPT_FREE
    assert limits(100_000, 100_000) == (PATIENT.connections, [])
    assert limits(1024, 4096) == (PATIENT.connections, [(wanted, 4096)])
    assert limits(1024, 1024) == (1024 - FILES_KEPT_FREE, [(1024, 1024)])
    assert limits(resource.RLIM_INFINITY, resource.RLIM_INFINITY) == (PATIENT.connections, [])


def test_health_has_places_of_its_own(database: Database) -> None:
    with serving(database, ConnectionLimits(connections=4, for_health=2)) as address, begun_by(8, address, BEGUN):
        time.sleep(0.2)
        assert is_healthy(address)
        refused = answered(address, b"GET /v1/terms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert "connections already" in problem_of(refused, 503, "unavailable")["detail"]


def test_an_address_holds_a_share_of_the_connections(database: Database) -> None:
    with serving(database, ConnectionLimits(connections=8, of_address=0.5)) as address, begun_by(4, address, BEGUN):
        time.sleep(0.2)
        refused = answered(address, b"GET /v1/terms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert "address of the caller holds 4" in problem_of(refused, 503, "unavailable")["detail"]
        with socket.create_connection(address, timeout=10, source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /v1/terms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert other.recv(100).split()[1] == b"200"


def test_callers_that_trickle_their_bodies_make_room_for_those_who_ask(database: Database) -> None:
    with serving(database, ConnectionLimits(connections=4, of_address=1.0)) as address, begun_by(4, address, BEGUN):
        began_s, status = time.monotonic(), b""
        while status != b"200" and time.monotonic() - began_s < 9:  # for their silence alone they are cut after 15 s
            time.sleep(0.5)
            status = answered(address, b"GET /v1/terms HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").split()[1]
        assert status == b"200"


def test_a_body_that_keeps_coming_too_slowly_is_cut(database: Database) -> None:
    with serving(database, ConnectionLimits(slow_s=0.5)) as address, socket.create_connection(address, timeout=10) as caller:
        caller.sendall(BEGUN)
        began_s = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began_s < 3:
                caller.send(b" ")
                time.sleep(0.05)
        assert "slower than 1,024 bytes" in problem_of(read_all(caller), 408, "timeout")["detail"]


def test_a_refused_caller_that_goes_on_sending_holds_no_place(database: Database) -> None:
    with serving(database) as address, socket.create_connection(address, timeout=10) as caller:
        caller.sendall(BEGUN.replace(b"application/json", b"text/plain"))
        began_s = time.monotonic()
        answer = b""
        with contextlib.suppress(OSError):
            while piece := caller.recv(65536):
                answer += piece
        problem_of(answer, 415, "not-json")
        assert time.monotonic() - began_s < 1.0  # told that no more will come


NUM_UNREAD = 60


def make_large_answer(address: Address) -> None:
    """The first one takes seconds."""
    httpx.get(f"http://{address[0]}:{address[1]}/openapi.json", timeout=60).raise_for_status()


@contextlib.contextmanager
def not_reading(address: Address) -> Iterator[socket.socket]:
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        caller.connect(address)
        caller.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * NUM_UNREAD)
        yield caller


def is_cut(caller: socket.socket) -> bool:
    caller.settimeout(0.05)
    try:
        while caller.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def test_callers_that_do_not_read_are_cut(database: Database) -> None:
    with serving(database, ConnectionLimits(write_s=0.5)) as address:
        make_large_answer(address)
        with not_reading(address) as caller:
            time.sleep(3.5)
            assert is_cut(caller)


def test_answers_that_nobody_reads_hold_a_bounded_memory(database: Database) -> None:
    with serving(database, ConnectionLimits(unread_bytes=2**20)) as address, contextlib.ExitStack() as stack:
        make_large_answer(address)
        callers = [stack.enter_context(not_reading(address)) for _ in range(40)]
        time.sleep(4)
        assert sum(map(is_cut, callers)) >= 20
        assert is_healthy(address)


def test_what_waits_for_readers_is_bounded_at_each_answer(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    pause = Connections.pause

    def noted(self: Connections, connection: BoundedProtocol) -> None:
        pause(self, connection)
        seen.append(sum(each.unread_bytes for each in self.open))

    monkeypatch.setattr(Connections, "pause", noted)
    with (
        serving(database, ConnectionLimits(unread_bytes=2**20, write_s=60.0)) as address,
        contextlib.ExitStack() as stack,
    ):
        make_large_answer(address)
        for _ in range(40):
            stack.enter_context(not_reading(address))
        time.sleep(2)
    assert len(seen) >= 40
    assert max(seen) <= 2**20


def test_networks_take_turns_to_begin_requests_and_few_begin_in_one_round() -> None:
    async def begun() -> list[str]:
        starts, order = Starts(), []
        rounds = 0

        async def request(network: str) -> None:
            await starts.turn(network)
            order.append(f"{network}{rounds}")

        requests = [asyncio.ensure_future(request(network)) for network in "a" * 40 + "b"]
        while not all(each.done() for each in requests):
            rounds += 1
            await asyncio.sleep(0)
        return order

    order = finished(begun())
    assert len(order) == 41
    assert [each[0] for each in order[:3]].count("b") == 1  # one request before a flood of forty of another network
    assert max(Counter(each[1:] for each in order).values()) <= 4


def test_newcomers_go_before_a_flood_of_requests() -> None:
    async def begun() -> int:
        starts = Starts()
        requests = [asyncio.ensure_future(starts.turn("a")) for _ in range(200)]
        for _ in range(5):
            starts.has_newcomer = True
            await asyncio.sleep(0)
        done = sum(each.done() for each in requests)
        await asyncio.gather(*requests)
        return done

    assert finished(begun()) <= 8  # 20 without newcomers

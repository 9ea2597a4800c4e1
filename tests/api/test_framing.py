"""Requests that two readers of one connection could take for different ones are refused, and their connection closed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from app.storage.session import Database
from tests.api.sockets import Address, serving
from tests.api.test_connections import answered, problem_of

HOST = b"Host: 127.0.0.1\r\n"
BODY = b"2\r\n{}\r\n0\r\n\r\n"
POST = b"POST /v1/models:import HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    from app.storage.upgrade import upgrade

    url = f"sqlite:///{tmp_path_factory.mktemp('framing') / 'm.db'}"
    upgrade(url)
    with Database(url) as database, serving(database) as found:
        yield found


@pytest.mark.parametrize(
    ("request_text", "status", "kind"),
    [
        (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY + NEXT, 400, "not-http"),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n" + BODY + NEXT, 400, "not-http"),
        (POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + BODY, 400, "not-http"),
        (b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n", 505, "http-version"),
        (b"GET /healthz HTTP/1.2\r\n" + HOST + b"\r\n", 505, "http-version"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400, "not-http"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\r\n\tb\r\n\r\n", 400, "not-http"),
        (b"GET /healthz HTTP/1.1\n" + HOST + b"\r\n", 400, "not-http"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\n\r\n", 400, "not-http"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\n\n", 400, "not-http"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", 400, "not-http"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: a\n\r\n\r\n", 400, "not-http"),
    ],
    ids=["CL TE", "TE CL", "TE 1.0", "9.9", "1.2", "fold", "fold tab", "LF", "LF field", "LF LF", "LF chunk", "LF trailer"],
)
def test_an_ambiguous_message_is_refused(address: Address, request_text: bytes, status: int, kind: str) -> None:
    answer = answered(address, request_text)  # the connection ends, whatever follows
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    if answer.split()[1] != b"422":  # the trailer of a body that was answered already
        problem_of(answer, status, kind)


def test_a_header_that_comes_byte_by_byte_is_read_as_if_it_came_at_once(address: Address) -> None:
    import socket

    text = POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + BODY
    with socket.create_connection(address, timeout=10) as caller:
        for index in range(len(text)):
            caller.sendall(text[index : index + 1])
            time.sleep(0.0005)
        assert caller.recv(100).split()[1] == b"422"


def test_requests_one_after_the_other_are_answered_one_after_the_other(address: Address) -> None:
    closing = NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n" + BODY
    assert answered(address, NEXT + chunked + NEXT + closing).count(b"HTTP/1.1 ") == 4


@pytest.mark.parametrize(
    ("num_chunks", "chunk_bytes", "status"), [(900, 1, 422), (3000, 1, 400), (3000, 20, 400), (1500, 150, 422)]
)
def test_a_body_in_very_many_small_chunks_is_refused(address: Address, num_chunks: int, chunk_bytes: int, status: int) -> None:
    """Each chunk takes as long to read as a large one: a megabyte of one-byte chunks kept the event loop for 0.9 s."""
    chunk = f"{chunk_bytes:x}\r\n".encode() + b" " * chunk_bytes + b"\r\n"
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = answered(address, head + chunk * num_chunks + BODY)
    assert int(answer.split()[1]) == status, answer
    assert (b"send larger ones" in answer) == (status == 400)

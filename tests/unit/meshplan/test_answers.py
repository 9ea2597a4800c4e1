"""Answers of a server are read up to a limit, whole or as events, by both clients."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from meshplan import answers
from meshplan.client import AsyncClient, Client, Event, MeshplanError
from tests.coroutines import finished

LIMIT_BYTES = 1000
STUDY = {"id": "s1", "state": "completed", "progress": None, "result": None, "error": None}
Call = Callable[[httpx.Response, str], Any]


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that counts the pieces that were taken of it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self.num_taken = pieces, 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.num_taken += 1
            assert self.num_taken <= 2000, "it is read without end"
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _now(response: httpx.Response, method: str) -> Any:
    with Client("http://planner", transport=httpx.MockTransport(lambda request: response)) as client:
        found = getattr(client, method)("s1")
        return next(found) if method == "events" else found


def _later(response: httpx.Response, method: str) -> Any:
    async def main() -> Any:
        async with AsyncClient("http://planner", transport=httpx.MockTransport(lambda request: response)) as client:
            found = getattr(client, method)("s1")
            return await (anext(found) if method == "events" else found)

    return finished(main())


@pytest.fixture(params=[_now, _later], ids=["Client", "AsyncClient"])
def call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", LIMIT_BYTES)
    monkeypatch.setattr(answers, "MAX_EVENT_BYTES", LIMIT_BYTES)
    chosen: Call = request.param
    return chosen


def _endless(piece: bytes) -> Pieces:
    return Pieces(iter(lambda: piece, b""))


@pytest.mark.parametrize("status", [200, 422])
@pytest.mark.parametrize("method", ["study", "report"])
def test_an_answer_without_end_is_left_at_the_limit(call: Call, method: str, status: int) -> None:
    body = _endless(b" " * 100)
    with pytest.raises(MeshplanError, match=r"^http://planner/v1/\S+ sends an answer of more than 1,000 bytes") as refused:
        call(httpx.Response(status, stream=body), method)
    assert refused.value.status == 0
    assert body.num_taken == 11


@pytest.mark.parametrize(
    "piece", [b"data: " + b"1" * 94, b"name: value of it\n", b"\r"], ids=["line", "lines", "carriage returns"]
)
def test_an_event_without_end_is_left_at_the_limit(call: Call, piece: bytes) -> None:
    body = _endless(piece)
    with pytest.raises(MeshplanError, match="sends an event of more than 1,000 bytes") as refused:
        call(httpx.Response(200, stream=body), "events")
    assert refused.value.status == 0
    assert body.num_taken == 1000 // len(piece) + 1


def test_the_refusal_of_a_stream_has_the_limit_of_an_answer(call: Call) -> None:
    with pytest.raises(MeshplanError, match="sends an answer of more than 1,000 bytes"):
        call(httpx.Response(404, stream=_endless(b" " * 100)), "events")


def test_a_packed_answer_is_counted_unpacked(call: Call) -> None:
    packed = gzip.compress(b" " * (LIMIT_BYTES + 1))
    assert len(packed) < LIMIT_BYTES // 10
    with pytest.raises(MeshplanError, match="more than 1,000 bytes"):
        call(httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Pieces(iter([packed]))), "study")


@pytest.mark.parametrize("method", ["study", "events"])
def test_an_answer_that_is_packed_twice_is_not_unpacked(call: Call, method: str) -> None:
    body = _endless(b"x")
    with pytest.raises(MeshplanError, match="answers in the encoding 'gzip, gzip'"):
        call(httpx.Response(200, headers={"content-encoding": "gzip, gzip"}, stream=body), method)
    assert body.num_taken == 0


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_of_just_the_limit_is_read(call: Call, is_packed: bool) -> None:
    content = json.dumps(STUDY).encode().ljust(LIMIT_BYTES)
    pieces, headers = [content[:7], content[7:]], {"content-length": str(LIMIT_BYTES)}
    if is_packed:
        packed = gzip.compress(content)
        pieces, headers = [packed[:7], packed[7:]], {"content-encoding": "gzip"}
    assert call(httpx.Response(200, headers=headers, stream=Pieces(iter(pieces))), "study").id == "s1"


@pytest.mark.parametrize("size", [1, 2, 5, 4000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_may_be_cut_anywhere(call: Call, size: int, end: str) -> None:
    ping, data = f": ping{end}{end}", json.dumps({"text": "\u2028步"}, ensure_ascii=False)
    content = (ping * 300 + f"id: 7{end}event: progress{end}data: {data}{end}{end}").encode()  # together above the limit
    pieces = (content[begin : begin + size] for begin in range(0, len(content), size))
    body = Pieces(pieces)
    if size == 1:
        body.num_taken = -len(content)
    assert call(httpx.Response(200, stream=body), "events") == Event(7, "progress", {"text": "\u2028步"})

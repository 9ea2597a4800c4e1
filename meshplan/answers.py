"""What a server answers, read up to a limit: a whole answer, or a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx

from meshplan.errors import MeshplanError
from meshplan.server_records import Event

MAX_ANSWER_BYTES = 2**28
MAX_EVENT_BYTES = 2**24
ENCODINGS = ("identity", "gzip")  # others, or two on each other, make of one piece more than memory holds
_UNPACKED = {"content-encoding", "content-length", "transfer-encoding"}  # headers of the answer as it was sent


class AnswerPieces:
    """An answer that comes in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response, self._content = _checked_encoding(response), bytearray()

    def add(self, piece: bytes) -> None:
        """Take the next piece, unpacked; ``MeshplanError`` once all are longer than an answer of meshplan ever is."""
        self._content += piece
        if len(self._content) > MAX_ANSWER_BYTES:
            raise _too_long(self._response, "answer", MAX_ANSWER_BYTES)

    def whole(self) -> httpx.Response:
        """The answer with all pieces as its content."""
        headers = [(name, value) for name, value in self._response.headers.multi_items() if name not in _UNPACKED]
        return httpx.Response(
            self._response.status_code, headers=headers, content=bytes(self._content), request=self._response.request
        )


def read_answer(response: httpx.Response) -> httpx.Response:
    """The whole answer."""
    answer = AnswerPieces(response)
    for piece in response.iter_bytes():
        answer.add(piece)
    return answer.whole()


async def read_answer_async(response: httpx.Response) -> httpx.Response:
    """The whole answer."""
    answer = AnswerPieces(response)
    async for piece in response.aiter_bytes():
        answer.add(piece)
    return answer.whole()


class EventPieces:
    """A parser of an event stream that comes in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = _checked_encoding(response)
        self._fields: dict[str, str] = {}
        self._line, self._num_bytes = bytearray(), 0

    def events(self, piece: bytes) -> Iterator[Event]:
        """The events that this piece completes; ``MeshplanError`` once one is longer than one of meshplan ever is."""
        for part in piece.splitlines(keepends=True):
            self._num_bytes += len(part)
            if self._num_bytes > MAX_EVENT_BYTES:
                raise _too_long(self._response, "event", MAX_EVENT_BYTES)
            self._line += part
            if part.endswith(b"\n"):
                line, self._line = self._line.decode(errors="replace").rstrip("\r\n"), bytearray()
                event = self._event(line)
                if event is not None:
                    yield event

    def _event(self, line: str) -> Event | None:
        """The event that this line completes, or None."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields, self._num_bytes = self._fields, {}, 0
        if "data" not in fields or "id" not in fields:
            return None
        return Event(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))


def _checked_encoding(response: httpx.Response) -> httpx.Response:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() not in ENCODINGS:
        raise _odd(response, f"answers in the encoding {encoding[:60]!r}")
    return response


def _too_long(response: httpx.Response, what: str, max_bytes: int) -> MeshplanError:
    return _odd(response, f"sends an {what} of more than {max_bytes:,} bytes")


def _odd(response: httpx.Response, what: str) -> MeshplanError:
    return MeshplanError(
        0, f"{response.url} {what}, and not as meshplan does.", hint="Give the URL that `meshplan serve` printed."
    )

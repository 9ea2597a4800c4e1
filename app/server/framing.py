"""Framing of HTTP messages: what two readers of one connection could read as different requests is refused.

h11 accepts a few forms that RFC 9112 allows a server to repair. A proxy in front may repair them otherwise, so that one
request would become two.

h11 shows a message only after it has repaired it, and its public input (``receive_data``) takes pieces of any size, in which a
header, the end of a body and the next request may stand together: where a line ends is known to its buffer alone. So the buffer
is replaced, although it is private. h11 is pinned, and ``tests/api/test_framing.py`` fails if a release moves the buffer.
"""

from __future__ import annotations

import re
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer

from documents.sentences import Sentence

VERSIONS = (b"1.0", b"1.1")
FREE_CHUNKS = 1_000  # chunks of a body that may be of any size
LEAST_CHUNK_BYTES = 128  # mean size of the others
_LONE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FOLD = re.compile(rb"\n[ \t]")
_END = b"\r\n\r\n"


class _Lines(ReceiveBuffer):
    """Input whose lines end in CR LF, and whose fields are one line each."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0  # bytes of an unfinished header whose line ends are known to be right

    def maybe_extract_lines(self) -> list[bytearray] | None:
        data, begin = self._data, max(0, self._seen - 1)
        end = data.find(_END, max(0, self._seen - len(_END) + 1))
        until = len(data) if end < 0 else end + len(_END)
        if _LONE_LINE_FEED.search(data, begin, until):
            raise h11.RemoteProtocolError(Sentence("A line ends in a line feed alone; end it in CR LF"))
        if _FOLD.search(data, begin, until):
            raise h11.RemoteProtocolError(Sentence("A header field goes on in a second line; write it in one"))
        if end < 0 and data[:2] != b"\r\n":
            self._seen = until
            return None
        self._seen = 0
        return super().maybe_extract_lines()


class StrictConnection(h11.Connection):
    """A server's side of a connection that refuses ambiguous messages."""

    def __init__(self, max_header_bytes: int) -> None:
        super().__init__(h11.SERVER, max_header_bytes)
        self._receive_buffer = _Lines()
        self._num_chunks = self._num_bytes = 0  # of the body

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check(event)
            self._num_chunks = self._num_bytes = 0
        elif isinstance(event, h11.Data):
            self._count(event)
        return event

    def _count(self, piece: h11.Data) -> None:
        """``RemoteProtocolError`` for a body in many small chunks: each takes as long to read as a large one."""
        self._num_chunks += piece.chunk_start
        self._num_bytes += len(piece.data)
        if self._num_chunks > FREE_CHUNKS and self._num_bytes < LEAST_CHUNK_BYTES * (self._num_chunks - FREE_CHUNKS):
            mean_bytes = self._num_bytes / self._num_chunks
            raise h11.RemoteProtocolError(
                Sentence("The body comes in {:,} chunks of {:.0f} bytes; send larger ones", self._num_chunks, mean_bytes)
            )


def _check(request: h11.Request) -> None:
    """``RemoteProtocolError`` for an unknown version, or a body whose length is given twice or in a way that 1.0 lacks."""
    if request.http_version not in VERSIONS:
        version = request.http_version.decode("ascii")
        raise h11.RemoteProtocolError(Sentence("HTTP/{} is not spoken here", version), error_status_hint=505)
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            raise h11.RemoteProtocolError(
                Sentence("The body has both a Content-Length and a Transfer-Encoding; send one of them")
            )
        if request.http_version == b"1.0":
            raise h11.RemoteProtocolError(Sentence("HTTP/1.0 has no Transfer-Encoding; send a Content-Length"))

"""Requests drawn as bytes: media types, duplicate keys and framing, which tools that read the OpenAPI document never vary."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

PATHS = (
    "estimates",
    "checks",
    "sweeps",
    "goodput",
    "explanations",
    "runs",
    "studies",
    "models:import",
    "serving/estimates",
    "scripts",
)
JSON_TYPES = ("application/json", "Application/JSON", "application/json; charset=utf-8", "application/vnd.a.b+json")
OTHER_TYPES = (
    "text/x+json",
    "image/svg+json",
    "+json",
    "x+json",
    "text/plain",
    "application/json5",
    "application/xml",
    "json",
    "",
)
MAX_S = 5.0  # of an answer; a body of quadratic cost took 11 s of a core
_MAX_KEYS = 20_000


@dataclass(frozen=True)
class Case:
    """A request as bytes, and the statuses that are right. ``ends``: nothing more may be answered on the connection."""

    label: str
    content: bytes
    statuses: tuple[int, ...]
    ends: bool


def drawn(numbers: random.Random) -> Case:
    """A request with at most one thing wrong, at random."""
    path, kind = numbers.choice(PATHS), numbers.choice(("type", "keys", "framing"))
    if kind == "type":
        media, is_json = (numbers.choice(JSON_TYPES), True) if numbers.random() < 0.4 else (numbers.choice(OTHER_TYPES), False)
        return Case(f"{path} {media!r}", _request(path, b"{}", media=media), (422,) if is_json else (415,), False)
    if kind == "keys":
        return Case(f"{path} duplicate key", _request(path, _with_duplicate(numbers)), (413, 422), False)
    label, content = numbers.choice(_framings(path, numbers))
    return Case(f"{path} {label}", content, (400, 501, 505), True)


def answer_to(url: str, case: Case) -> str | None:
    """Send the case, and then a good request on the same connection; what is wrong with the answers, or None."""
    address = urlsplit(url)
    begun_s = time.perf_counter()
    with socket.create_connection((address.hostname, address.port or 80), timeout=60) as caller:
        caller.sendall(case.content)
        text = b""
        with caller.makefile("rb") as answers:
            if not case.ends:
                caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            try:
                text = answers.read()
            except ConnectionResetError:
                return "the connection was reset before its answer"
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", text)]
    expected = 1 if case.ends else 2
    if not statuses or statuses[0] not in case.statuses or len(statuses) != expected:
        return f"answered {statuses}, expected {expected} with {case.statuses}: {text[:300]!r}"
    taken_s = time.perf_counter() - begun_s
    return None if taken_s <= MAX_S else f"answered after {taken_s:.1f} s"


def _request(path: str, body: bytes, *, media: str = "application/json") -> bytes:
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    return (head + (f"Content-Type: {media}\r\n" if media else "") + "\r\n").encode() + body


def _with_duplicate(numbers: random.Random) -> bytes:
    """A mapping, at some depth, one of whose keys comes twice."""
    names = [f"k{number}" for number in range(numbers.choice((1, 10, 1000, _MAX_KEYS)))]
    names.insert(numbers.randrange(len(names) + 1), numbers.choice(names))
    text = "{" + ",".join(f"{json.dumps(name)}:0" for name in names) + "}"
    for _ in range(numbers.randrange(5)):
        text = numbers.choice(('{{"model":{}}}', '{{"strategies":[{}]}}')).format(text)
    return text.encode()


def _framings(path: str, numbers: random.Random) -> list[tuple[str, bytes]]:
    """Messages that two readers of a connection could take for different ones."""
    start, host, media = f"POST /v1/{path} HTTP/1.1\r\n".encode(), b"Host: 127.0.0.1\r\n", b"Content-Type: application/json\r\n"
    chunks = b"2\r\n{}\r\n0\r\n\r\n"
    length = str(numbers.randrange(3, 30)).encode()
    fields = {
        "length and chunks": b"Content-Length: " + length + b"\r\nTransfer-Encoding: chunked\r\n",
        "two lengths": b"Content-Length: 2\r\nContent-Length: " + length + b"\r\n",
        "signed length": b"Content-Length: +" + length + b"\r\n",
        "space before colon": b"Transfer-Encoding : chunked\r\n",
        "unknown coding": b"Transfer-Encoding: xchunked\r\n",
        "two codings": b"Transfer-Encoding: chunked, identity\r\n",
        "fold": b"X: a\r\n b\r\nTransfer-Encoding: chunked\r\n",
        "lone line feed": b"X: a\nTransfer-Encoding: chunked\r\n",
        "NUL": b"X: a\x00b\r\nTransfer-Encoding: chunked\r\n",
        "two hosts": b"Host: other\r\nTransfer-Encoding: chunked\r\n",
    }
    found = [(name, start + host + media + field + b"\r\n" + chunks) for name, field in fields.items()]
    version = numbers.choice((b"9.9", b"1.2", b"2.0")) + b"\r\n"
    return [*found, ("version", start.replace(b"1.1\r\n", version) + host + media + b"Content-Length: 2\r\n\r\n{}")]

"""Wraps every request: an id, size limit, security headers, one log line, metrics, and a problem document if all else fails."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from secrets import token_hex

import structlog
from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.large_bodies import announced_bytes
from app.http.metrics import Metrics
from app.http.problems import ServiceError, problem
from documents.bounds import DOCUMENT_BYTES

API = "/v1"
MAX_BODY_BYTES_OF: Mapping[str, int] = {
    f"{API}/estimates": 16 * 1024 * 1024,  # 10,000 strategies with every field
    f"{API}/scripts": 8 * 1024 * 1024,  # a script and the files that it sources
    f"{API}/checks": 4 * 1024 * 1024,  # a baseline may be a search's answer with all its plans
    f"{API}/checks:keep": 4 * 1024 * 1024,
    f"{API}/experts/plans": 8 * 1024 * 1024,  # counts of some dozen steps
    f"{API}/sequences/plans": 4 * 1024 * 1024,  # 500,000 lengths
    f"{API}/runs": 4 * 1024 * 1024,  # 500 records
}

_PAGES = ("/docs", "/redoc")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
}
# The dashboard's components have inline styles.
_DASHBOARD_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'; form-action 'self'"
)
# The pages of the documentation and of the API have an inline script and inline styles.
_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'"
)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")  # short enough for a log line and a URN
_TRACE_PARENT = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?"
)  # https://www.w3.org/TR/trace-context/
_GONE = 499  # status in the log if the caller left before it had sent its request

log = structlog.get_logger("meshplan.http")


class Envelope:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["request_id"], scope["trace_id"] = _ids(scope)
        started_s, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), scope)
            await send(message)

        try:
            limit = MAX_BODY_BYTES_OF.get(scope["path"], DOCUMENT_BYTES)
            if announced_bytes(scope) > limit:
                await problem(Request(scope), _too_large(limit))(scope, receive, send_with_headers)
            else:
                await self.app(scope, _limited(receive, limit), send_with_headers)
        except ClientDisconnect:
            status = status or _GONE
        except Exception:
            log.exception("request failed", request_id=scope["request_id"], method=scope["method"], path=scope["path"])
            if status:  # too late for another answer; the server closes the connection
                raise
            failed = ServiceError("internal", "The server failed on this request.")
            await problem(Request(scope), failed)(scope, receive, send_with_headers)
        finally:
            self._finish(scope, status, time.perf_counter() - started_s)

    def _finish(self, scope: Scope, status: int, duration_s: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        if scope["path"].startswith(f"{API}/") and route != "unmatched":
            route = API + route  # a router's own paths begin after the prefix
        self.metrics.request(scope["method"], route, status, duration_s)
        if route not in ("/healthz", "/readyz", "/metrics"):
            log.info(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                path=scope["path"],
                status=status,
                duration_s=round(duration_s, 6),
                caller=scope.get("caller"),
                **({"trace_id": scope["trace_id"]} if scope["trace_id"] else {}),
            )


def _ids(scope: Scope) -> tuple[str, str | None]:
    """The caller's request id, or a new one, and the trace of the request."""
    headers = Headers(scope=scope)
    given, trace = headers.get("x-request-id", ""), _TRACE_PARENT.fullmatch(headers.get("traceparent", ""))
    is_trace = trace is not None and trace[1] != "ff" and set(trace[2]) != {"0"} and set(trace[3]) != {"0"}
    return given if _REQUEST_ID.fullmatch(given) else token_hex(8), trace[2] if trace is not None and is_trace else None


def _too_large(limit: int) -> ServiceError:
    return ServiceError(
        "too-large", f"The body is larger than {limit // 1024:,} KiB.", hint=f"Send at most {limit:,} bytes.", pointer="#"
    )


def _limited(receive: Receive, limit: int) -> Receive:
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit)
        return message

    return counted


def _is_private(path: str) -> bool:
    return path.startswith(f"{API}/") or path == "/metrics"


def _add_headers(headers: MutableHeaders, scope: Scope) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if scope["path"].startswith(_PAGES):
        headers["Content-Security-Policy"] = _PAGE_POLICY
    elif not scope["path"].startswith(f"{API}/"):  # not by the content type: a 304 has none, and its policy replaces the page's
        headers["Content-Security-Policy"] = _DASHBOARD_POLICY
    # The dashboard's files have the same names in each version; answers belong to their caller.
    headers.setdefault("Cache-Control", "private, no-cache" if _is_private(scope["path"]) else "no-cache")
    headers["X-Request-ID"] = scope["request_id"]

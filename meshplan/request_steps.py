"""Requests of the clients as steps: a method yields requests and pauses, receives answers, and returns its result.

Both clients share these generators. ``Client`` runs a step and waits for it, ``AsyncClient`` awaits it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from meshplan.errors import MeshplanError
from meshplan.server_records import Calibration, JsonObject, Plan, Study

PAGE = 200
WHOLE_LISTS = ("/v1/models", "/v1/hardware")  # lists that come in one page
ATTEMPTS = 4
FIRST_PAUSE_S = 0.25
SILENCE_S = 60.0  # a stream that is silent for this long is lost: the server sends something every 15 s
MAX_LOST_STREAMS = 20  # lost streams in a row; about half a minute
MAX_PAUSE_S = 5.0  # longest pause before a retry; a quota needs more, so its refusal is raised
T = TypeVar("T")
U = TypeVar("U")
Parameter = str | int | list[str]  # value in a query string; a list is repeated item by item


@dataclass(frozen=True)
class Request:
    """A request. The generator receives its response, or the ``httpx.TransportError`` that came instead."""

    method: str
    path: str
    body: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    parameters: Mapping[str, Parameter] | None
    timeout_s: float

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of ``httpx.Client.request``."""
        shared = {"method": self.method, "url": self.path, "timeout": self.timeout_s}
        return {**shared, "json": self.body, "headers": self.headers, "params": self.parameters}


@dataclass(frozen=True)
class Pause:
    """A pause. The generator receives None after it."""

    seconds: float


Answer = httpx.Response | httpx.TransportError | None
Flow = Generator[Request | Pause, Any, T]


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that a server gives page by page: ``page`` requests the page at a cursor, ``read`` makes its items."""

    page: Callable[[str | None], Flow[dict[str, Any]]]
    read: Callable[[dict[str, Any]], T]


def reading(read: Callable[[T], U], flow: Flow[T]) -> Flow[U]:
    """The flow, with ``read`` applied to its result."""
    return read((yield from flow))


def listed(pages: Pages[T]) -> Flow[list[T]]:
    """All items of all pages."""
    found: list[T] = []
    cursor = None
    while True:
        page = yield from pages.page(cursor)
        found += map(pages.read, page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def repeat_after_s(response: httpx.Response) -> float | None:
    """Seconds until the request is worth repeating; None if it is not."""
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return 0.0
    if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return None
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isdigit() and float(asked) <= MAX_PAUSE_S else None


def checked(response: httpx.Response) -> httpx.Response:
    """The response; raises ``MeshplanError`` for a refusal."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        detail, hint, pointer = problem["detail"], problem.get("hint"), problem.get("pointer")
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, hint, pointer = f"{response.url} answered {response.status_code}, and not as meshplan does.", None, None
    raise MeshplanError(response.status_code, detail, hint=hint, pointer=pointer)


def present(values: Mapping[str, Any]) -> JsonObject:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def text_of(response: httpx.Response) -> str:
    """The body as text."""
    return response.text


def study_of(document: JsonObject) -> Study:
    """Read the server's document."""
    named = {name: document[name] for name in ("id", "state", "progress", "result", "error")}
    return Study(**named, document=document)


def plan_of(document: JsonObject) -> Plan:
    """Read the server's document."""
    named = {name: document[name] for name in ("rank", "plan_id", "strategy", "estimate", "explanation")}
    return Plan(**named, document=document)


def calibration_of(document: JsonObject) -> Calibration:
    """Read the server's document."""
    named = {name: document[name] for name in ("id", "hardware", "stack", "num_runs", "errors", "warnings")}
    return Calibration(**named, file=document["calibration"], document=document)


def _as_it_is(item: JsonObject) -> Any:
    return item


class RequestSteps:
    """Steps that methods share: requests that are repeated while no server answers, and lists that come page by page."""

    _timeout_s: float
    _url: str

    def _items(
        self, path: str, query: Mapping[str, Parameter | None] | None = None, *, read: Callable[[JsonObject], T] = _as_it_is
    ) -> Pages[T]:
        parameters: dict[str, Parameter] = {name: value for name, value in (query or {}).items() if value is not None}
        if path not in WHOLE_LISTS:
            parameters["limit"] = PAGE

        def page(cursor: str | None) -> Flow[JsonObject]:
            return self._json("GET", path, parameters=parameters if cursor is None else {**parameters, "cursor": cursor})

        return Pages(page, read)

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Flow[JsonObject]:
        response = yield from self._request(method, path, body, headers, parameters, timeout_s=timeout_s)
        document: JsonObject = response.json()
        return document

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Flow[httpx.Response]:
        timeout = self._timeout_s if timeout_s is None else timeout_s
        for attempt in range(ATTEMPTS):
            answer: httpx.Response | httpx.TransportError = yield Request(method, path, body, headers, parameters, timeout)
            if isinstance(answer, httpx.TimeoutException):
                raise MeshplanError(0, f"{self._url} did not answer in time.") from answer
            if isinstance(answer, httpx.TransportError):
                if attempt == ATTEMPTS - 1:
                    raise self._unreachable(answer) from answer
                pause_s: float | None = 0.0
            else:
                pause_s = repeat_after_s(answer)
                if pause_s is None or attempt == ATTEMPTS - 1:
                    return checked(answer)
            yield Pause(max(pause_s, FIRST_PAUSE_S * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _unreachable(self, error: Exception) -> MeshplanError:
        return MeshplanError(0, f"no server answers at {self._url} ({error}).", hint="Start one with `meshplan serve`.")

    def _lost(self, failures: int, error: httpx.TransportError) -> float:
        """Pause before the next stream after ``failures`` lost streams in a row. [s]"""
        if failures > MAX_LOST_STREAMS:
            raise self._unreachable(error) from error
        return min(FIRST_PAUSE_S * 2.0**failures, 2.0)

    def _stream(self, study_id: str, after: int) -> JsonObject:
        timeout = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, SILENCE_S))
        url, headers = f"/v1/studies/{study_id}/events", {"Last-Event-ID": str(after), "Accept-Encoding": "identity"}
        return {"method": "GET", "url": url, "headers": headers, "timeout": timeout}

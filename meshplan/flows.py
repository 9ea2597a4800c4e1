"""Methods of a server's clients, written once: what each asks, as steps that either client takes in its own way.

A method is a generator of requests and pauses, which gets answers back and returns its result. ``Client`` takes the steps one by
one, ``AsyncClient`` awaits them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, overload

import httpx

from meshplan.answers import Calibration, Event, JsonObject, Language, Plan, Study
from meshplan.errors import MeshplanError

if TYPE_CHECKING:
    from meshplan.client import AsyncClient, Client

DEFAULT_URL = "http://127.0.0.1:8765"
PAGE = 200
WHOLE_LISTS = ("/v1/models", "/v1/hardware")  # in one page
ATTEMPTS = 4
FIRST_PAUSE_S = 0.25
SILENCE_S = 60.0  # a stream that says nothing for this long is lost: the server sends something every 15 s
MAX_LOST_STREAMS = 20  # in a row, about half a minute
MAX_PAUSE_S = 5.0  # that a server may ask for; a quota's is longer, and told
P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
Parameter = str | int | list[str]  # of an address; a list is said item by item


@dataclass(frozen=True)
class Request:
    """Answered with a response, or with the ``httpx.TransportError`` that came in its place."""

    method: str
    path: str
    body: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    parameters: Mapping[str, Parameter] | None
    timeout_s: float

    @property
    def arguments(self) -> dict[str, Any]:
        """As ``httpx`` takes them."""
        shared = {"method": self.method, "url": self.path, "timeout": self.timeout_s}
        return {**shared, "json": self.body, "headers": self.headers, "params": self.parameters}


@dataclass(frozen=True)
class Pause:
    """Answered with None, after so long."""

    seconds: float


Answer = httpx.Response | httpx.TransportError | None
Flow = Generator[Request | Pause, Any, T]


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that a server gives page by page: ``page`` is what asks for the one behind a cursor, ``read`` makes its items."""

    page: Callable[[str | None], Flow[dict[str, Any]]]
    read: Callable[[dict[str, Any]], T]


def reading(read: Callable[[T], U], flow: Flow[T]) -> Flow[U]:
    """A flow whose result is read."""
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


class call(Generic[P, T]):  # noqa: N801
    """A method of both clients, from the one that says its steps."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.steps = steps
        self.__doc__, self.__name__ = steps.__doc__, steps.__name__

    @overload
    def __get__(self, client: None, kind: type[Any]) -> call[P, T]: ...
    @overload
    def __get__(self, client: Client, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, kind: type[Any]) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, kind: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.steps)
        def taken(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._take(self.steps(client, *args, **kwargs))

        return taken


class listing(Generic[P, T]):  # noqa: N801
    """A method of both clients that goes through a list, page by page."""

    def __init__(self, pages: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.pages = pages
        self.__doc__, self.__name__ = pages.__doc__, pages.__name__

    @overload
    def __get__(self, client: None, kind: type[Any]) -> listing[P, T]: ...
    @overload
    def __get__(self, client: Client, kind: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, kind: type[Any]) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, kind: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.pages)
        def gone_through(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._through(self.pages(client, *args, **kwargs))

        return gone_through


def repeat_after_s(response: httpx.Response) -> float | None:
    """Until the request is worth repeating; None where it is not."""
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return 0.0
    if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return None
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isdigit() and float(asked) <= MAX_PAUSE_S else None


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is no refusal."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        detail, hint, pointer = problem["detail"], problem.get("hint"), problem.get("pointer")
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, hint, pointer = f"{response.url} answered {response.status_code}, and not as meshplan does.", None, None
    raise MeshplanError(response.status_code, detail, hint=hint, pointer=pointer)


class EventLines:
    """Lines of a stream, as events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def event(self, line: str) -> Event | None:
        """The event that the line ends, if it ends one."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields or "id" not in fields:
            return None
        return Event(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))


H = TypeVar("H", httpx.Client, httpx.AsyncClient)


def connected(kind: type[H], url: str, api_key: str | None, language: Language, timeout_s: float, transport: Any) -> H:
    """A connection of either kind; nothing is sent yet."""
    if language not in get_args(Language):
        raise MeshplanError(0, f"{language!r} is no language of answers.", hint="Give en or zh.")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    if language != "en":
        headers["Accept-Language"] = language
    try:
        http = kind(base_url=url, headers=headers, timeout=timeout_s, transport=transport)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise MeshplanError(0, f"{url!r} is not the URL of a server: {error}.") from None
    if http.base_url.scheme not in ("http", "https") or not http.base_url.host:
        raise MeshplanError(0, f"{url!r} is not the URL of a server.", hint=f"Give one such as {DEFAULT_URL}.")
    return http


def present(values: Mapping[str, Any]) -> JsonObject:
    """What is not None."""
    return {name: value for name, value in values.items() if value is not None}


def text_of(response: httpx.Response) -> str:
    """The body as it is."""
    return response.text


def study_of(document: JsonObject) -> Study:
    """As the server tells it."""
    named = {name: document[name] for name in ("id", "state", "progress", "result", "error")}
    return Study(**named, document=document)


def plan_of(document: JsonObject) -> Plan:
    """As the server tells it."""
    named = {name: document[name] for name in ("rank", "plan_id", "strategy", "estimate", "explanation")}
    return Plan(**named, document=document)


def calibration_of(document: JsonObject) -> Calibration:
    """As the server tells it."""
    named = {name: document[name] for name in ("id", "hardware", "stack", "num_runs", "errors", "warnings")}
    return Calibration(**named, file=document["calibration"], document=document)


def _as_it_is(item: JsonObject) -> Any:
    return item


class Asking:
    """How a method asks: again where no server answers, page by page, and with what it says where it gives up."""

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
        """How long to wait for the next stream after so many that were lost in a row. [s]"""
        if failures > MAX_LOST_STREAMS:
            raise self._unreachable(error) from error
        return min(FIRST_PAUSE_S * 2.0**failures, 2.0)

    def _stream(self, study_id: str, after: int) -> JsonObject:
        timeout = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, SILENCE_S))
        url, headers = f"/v1/studies/{study_id}/events", {"Last-Event-ID": str(after)}
        return {"method": "GET", "url": url, "headers": headers, "timeout": timeout}

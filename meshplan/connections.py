"""Connections to a server: one that waits for each step of a method, one that awaits it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, get_args

import httpx

from meshplan.answers import read_answer, read_answer_async
from meshplan.errors import MeshplanError
from meshplan.request_steps import Answer, Flow, Pages, Pause
from meshplan.server_records import Language

DEFAULT_URL = "http://127.0.0.1:8765"
T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)


def connected(kind: type[H], url: str, api_key: str | None, language: Language, timeout_s: float, transport: Any) -> H:
    """Open a connection of either kind; nothing is sent yet."""
    if language not in get_args(Language):
        raise MeshplanError(0, f"{language!r} is no language of answers.", hint="Give en or zh.")
    headers = {"Accept-Encoding": "gzip"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    if language != "en":
        headers["Accept-Language"] = language
    try:
        http = kind(base_url=url, headers=headers, timeout=timeout_s, transport=transport)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise MeshplanError(0, f"{url!r} is not the URL of a server: {error}.") from None
    if http.base_url.scheme not in ("http", "https") or not http.base_url.host:
        raise MeshplanError(0, f"{url!r} is not the URL of a server.", hint=f"Give one such as {DEFAULT_URL}.")
    return http


class Connection:
    """Runs the steps of methods; each step waits for its answer."""

    _http: httpx.Client

    def _take(self, flow: Flow[T]) -> T:
        answer: Answer = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                answer = None
                continue
            try:
                with self._http.stream(**step.arguments) as response:
                    answer = read_answer(response)
            except httpx.TransportError as error:
                answer = error

    def _through(self, pages: Pages[T]) -> Iterator[T]:
        cursor = None
        while True:
            page = self._take(pages.page(cursor))
            yield from map(pages.read, page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return


class AsyncConnection:
    """Runs the steps of methods; each step is awaited."""

    _http: httpx.AsyncClient

    async def _take(self, flow: Flow[T]) -> T:
        answer: Answer = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                answer = None
                continue
            try:
                async with self._http.stream(**step.arguments) as response:
                    answer = await read_answer_async(response)
            except httpx.TransportError as error:
                answer = error

    async def _through(self, pages: Pages[T]) -> AsyncIterator[T]:
        cursor = None
        while True:
            page = await self._take(pages.page(cursor))
            for item in page["items"]:
                yield pages.read(item)
            cursor = page["next_cursor"]
            if cursor is None:
                return

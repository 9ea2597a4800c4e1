"""Decorators that turn the steps of a method into a method of both clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from meshplan.connections import AsyncConnection, Connection
from meshplan.request_steps import Flow, Pages

P = ParamSpec("P")
T = TypeVar("T")


class call(Generic[P, T]):  # noqa: N801
    """Build a method of both clients from the generator of its steps."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.steps = steps
        self.__doc__, self.__name__ = steps.__doc__, steps.__name__

    @overload
    def __get__(self, client: None, kind: type[Any]) -> call[P, T]: ...
    @overload
    def __get__(self, client: Connection, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncConnection, kind: type[Any]) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Connection | AsyncConnection | None, kind: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.steps)
        def taken(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._take(self.steps(client, *args, **kwargs))

        return taken


class listing(Generic[P, T]):  # noqa: N801
    """Build a method of both clients that iterates over a list, page by page."""

    def __init__(self, pages: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.pages = pages
        self.__doc__, self.__name__ = pages.__doc__, pages.__name__

    @overload
    def __get__(self, client: None, kind: type[Any]) -> listing[P, T]: ...
    @overload
    def __get__(self, client: Connection, kind: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncConnection, kind: type[Any]) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Connection | AsyncConnection | None, kind: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.pages)
        def iterated(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._through(self.pages(client, *args, **kwargs))

        return iterated

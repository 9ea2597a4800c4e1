"""Schemas of documents are built when they are first used, by one thread while the others wait."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pydantic import create_model

from app.text.json_documents import Document
from documents.built_when_used import BuiltWhenUsed
from documents.checking import Section

NUM_THREADS = 8
FIELDS = {f"field_{number}": (list[dict[str, int | float | None]], []) for number in range(15)}


def fresh(base: type[BuiltWhenUsed]) -> type[BuiltWhenUsed]:
    """A model that nobody has used, with a part of its own."""
    part = create_model("Part", __base__=base, **FIELDS)  # type: ignore[call-overload]
    whole: type[BuiltWhenUsed] = create_model("Whole", __base__=base, part=(part, ...), number=(int, ...))
    return whole


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads that take turns at almost every step."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.parametrize("base", [Section, Document])
def test_a_model_is_built_when_it_is_used(base: type[BuiltWhenUsed]) -> None:
    model = fresh(base)
    assert not model.__pydantic_complete__
    assert model.model_validate({"part": {}, "number": 1}).model_dump(exclude_unset=True) == {"part": {}, "number": 1}
    assert model.__pydantic_complete__


@pytest.mark.usefixtures("busy_threads")
def test_threads_that_use_a_model_first_together_read_it_alike() -> None:
    """Without the lock pydantic 2.12 fails in one of eight such models."""
    for _ in range(40):
        model, start = fresh(Section), Barrier(NUM_THREADS)

        def read(_: int, model: type[BuiltWhenUsed] = model, start: Barrier = start) -> dict[str, object]:
            start.wait()
            return model.model_validate({"part": {}, "number": 1}).model_dump(exclude_unset=True)

        with ThreadPoolExecutor(NUM_THREADS) as threads:
            assert list(threads.map(read, range(NUM_THREADS))) == [{"part": {}, "number": 1}] * NUM_THREADS

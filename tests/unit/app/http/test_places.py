"""Places are shared: who comes late finds one."""

import asyncio
from contextlib import ExitStack

import pytest

from app.http.places import NoPlaceError, Places, Turns
from tests.coroutines import finished


def taken(places: Places, owner: str | None, held: ExitStack) -> int:
    """Takes as many as the owner gets, until the stack ends."""
    number = 0
    while True:
        try:
            held.enter_context(places.taken(owner))
        except NoPlaceError:
            return number
        number += 1


def test_an_owner_leaves_as_many_places_as_it_holds() -> None:
    places = Places(16)
    with ExitStack() as held:
        assert [taken(places, owner, held) for owner in "abcdef"] == [8, 4, 2, 1, 1, 0]


def test_callers_without_an_owner_take_all() -> None:
    with ExitStack() as held:
        assert taken(Places(5), None, held) == 5


def test_a_place_is_free_again_after_its_block() -> None:
    places = Places(2)
    for _ in range(3):
        with places.taken("a"), pytest.raises(NoPlaceError), places.taken("a"):
            pass
    assert places.num_free == 2


class Callers:
    """Callers that hold a place until they are let go; ``order``: who got one."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.order = turns, list[str]()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.may_go: dict[str, asyncio.Event] = {}

    async def come(self, name: str, owner: str | None) -> None:
        self.may_go[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._hold(name, owner))
        await asyncio.sleep(0)

    async def _hold(self, name: str, owner: str | None) -> None:
        async with self.turns.taken(owner):
            self.order.append(name)
            await self.may_go[name].wait()

    async def go(self, name: str) -> None:
        self.may_go[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)


def test_the_next_place_is_that_of_the_owner_who_holds_the_fewest() -> None:
    async def play() -> list[str]:
        callers = Callers(Turns(1, 16))
        for name in ("ada 1", "ada 2", "ada 3", "bob 1", "bob 2"):
            await callers.come(name, name.split()[0])
        for name in ("ada 1", "ada 2", "bob 1", "ada 3", "bob 2"):  # ada came first, then they alternate
            await callers.go(name)
        return callers.order

    assert finished(play()) == ["ada 1", "ada 2", "bob 1", "ada 3", "bob 2"]


def test_an_owner_leaves_one_place_to_others_and_half_of_the_queue() -> None:
    async def play() -> None:
        callers = Callers(Turns(3, 4))
        for number in range(4):
            await callers.come(f"ada {number}", "ada")
        assert callers.order == ["ada 0", "ada 1"]
        with pytest.raises(NoPlaceError):  # two wait, two places of the queue are free
            async with callers.turns.taken("ada"):
                pass
        await callers.come("bob", "bob")
        assert callers.order[-1] == "bob"
        for name in ("bob", "ada 0", "ada 1", "ada 2", "ada 3"):
            await callers.go(name)

    finished(play())


def test_a_caller_that_leaves_the_queue_or_is_let_in_as_it_leaves_holds_no_place() -> None:
    async def play() -> None:
        callers = Callers(Turns(1, 16))
        for name in ("ada", "bob", "eve", "joe"):
            await callers.come(name, name)
        callers.tasks["bob"].cancel()
        callers.may_go["ada"].set()
        await callers.tasks["ada"]
        callers.tasks["eve"].cancel()
        await asyncio.sleep(0.01)
        assert callers.order in (["ada", "joe"], ["ada", "eve", "joe"])  # eve may be let in before she leaves
        await callers.go("joe")
        assert callers.turns.num_waiting == 0

    finished(play())

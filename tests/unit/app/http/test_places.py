"""Places are shared: who comes late finds one."""

from contextlib import ExitStack

import pytest

from app.http.places import NoPlaceError, Places


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

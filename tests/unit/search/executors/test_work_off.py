"""Pieces of work are each done once, by whoever has room, and what was begun before is not begun again."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from search.executors.executor import SERIAL, Piece, WorkerLostError, work_off


class Roomy:
    """Takes so many calls; answers them at once, or loses them."""

    grown_bytes = 0

    def __init__(self, room: int, *, loses: bool = False) -> None:
        self.room, self._loses = room, loses
        self.taken: list[int] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.room -= 1
        self.taken.append(arguments[0])
        future: Future[Any] = Future()
        if self._loses:
            future.set_exception(WorkerLostError())
        else:
            future.set_result(function(*arguments))
        return future

    def close(self) -> None:
        pass


def squares(own: list[int]) -> list[Piece[int]]:
    """Of 0 to 4; ``own`` notes which are worked out in this process."""

    def here(number: int) -> int:
        own.append(number)
        return number**2

    return [Piece(pow, number, 2, own=partial(here, number)) for number in range(5)]


def test_others_take_what_they_have_room_for_and_this_process_the_rest() -> None:
    own, beats = list[int](), list[None]()
    pieces, others = squares(own), Roomy(2)
    work_off(others, pieces, lambda: beats.append(None))
    assert [piece.result() for piece in pieces] == [0, 1, 4, 9, 16]
    assert others.taken == [0, 1]
    assert own == [2, 3, 4]
    assert len(beats) == 5


def test_what_was_done_before_is_neither_done_again_nor_a_sign_of_life() -> None:
    own, beats = list[int](), list[None]()
    pieces = squares(own)
    pieces[3].here()
    work_off(SERIAL, pieces, lambda: beats.append(None))
    assert own == [3, 0, 1, 2, 4]
    assert len(beats) == 4
    work_off(SERIAL, pieces, lambda: beats.append(None))
    assert len(beats) == 4


def test_what_others_lose_is_worked_out_here() -> None:
    own = list[int]()
    pieces = squares(own)
    work_off(Roomy(2, loses=True), pieces, lambda: None)
    assert [piece.result() for piece in pieces] == [0, 1, 4, 9, 16]
    assert sorted(own) == [0, 1, 2, 3, 4]

"""Pieces of work on the streams of ranks, which slow each other while they run at the same time: a loop over progress rates."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

Rates = Callable[[Collection[str]], Mapping[str, float]]  # streams that run on a rank -> progress of each, 1 alone


class Piece(NamedTuple):
    name: Hashable
    rank: int
    stream: str
    work_s: float  # time it takes alone
    needs: tuple[Hashable, ...]


def pairwise(slowdown: Mapping[tuple[str, str], float]) -> Rates:
    """``slowdown[a, b]`` is how much longer a takes while b runs; several others multiply; a pair that is not named is free."""

    def rates(running: Collection[str]) -> dict[str, float]:
        progress = {}
        for stream in running:
            progress[stream] = 1.0
            for other in running:
                progress[stream] /= slowdown.get((stream, other), 1.0)
        return progress

    return rates


def play(pieces: Sequence[Piece], rates: Rates) -> dict[Hashable, tuple[float, float]]:
    """Start and end of every piece.

    ``pieces`` are in launch order: a rank's compute stream runs them in that order, any other takes the first that is ready.
    """
    launched: dict[tuple[int, str], list[Piece]] = {}
    unmet = {piece.name: set(piece.needs) for piece in pieces}
    needed_by: dict[Hashable, list[Hashable]] = {}
    for piece in pieces:
        launched.setdefault((piece.rank, piece.stream), []).append(piece)
        for need in piece.needs:
            needed_by.setdefault(need, []).append(piece.name)
    running: dict[tuple[int, str], Piece] = {}
    left_s: dict[tuple[int, str], float] = {}
    start_s: dict[Hashable, float] = {}
    span: dict[Hashable, tuple[float, float]] = {}
    now = 0.0
    while len(span) < len(pieces):
        for at, queue in launched.items():
            if at in running:
                continue
            candidates = queue[:1] if at[1] == "compute" else queue
            ready = next((piece for piece in candidates if not unmet[piece.name]), None)
            if ready is not None:
                queue.remove(ready)
                running[at], left_s[at], start_s[ready.name] = ready, ready.work_s, now
        assert running, f"pieces wait for each other: {[queue[0].name for queue in launched.values() if queue]}"
        progress = {}
        for rank in {rank for rank, _ in running}:
            streams = [stream for at_rank, stream in running if at_rank == rank]
            for stream, rate in rates(streams).items():
                progress[rank, stream] = rate
        passed_s = min(left_s[at] / progress[at] for at in running)
        finished = [at for at in running if left_s[at] / progress[at] <= passed_s * (1 + 1e-12)]
        now += passed_s
        for at in running:
            left_s[at] -= passed_s * progress[at]
        for at in finished:
            done = running.pop(at).name
            span[done] = (start_s[done], now)
            for waiting in needed_by.get(done, []):
                unmet[waiting].discard(done)
    return span


def last_end_s(span: Mapping[Hashable, tuple[float, float]]) -> float:
    return max(end for _, end in span.values())

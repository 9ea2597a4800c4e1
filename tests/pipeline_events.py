"""An independent pipeline: Megatron's order of forwards and backwards on every rank, played event by event.

Written from the schedules' definition [megatron-0.12, schedules.py], without the model's formulas, to hold those to account.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Task(NamedTuple):
    backward: bool
    chunk: int
    micro_batch: int


def rank_order(rank: int, pp: int, vpp: int, num_microbatches: int) -> list[Task]:
    """What one rank runs, in its order: warm-up forwards, pairs of a forward and a backward, backwards."""
    forwards, backwards = [], []
    for start in range(0, num_microbatches, pp):
        group = range(start, min(start + pp, num_microbatches))
        forwards += [Task(False, chunk, mb) for chunk in range(vpp) for mb in group]
        backwards += [Task(True, chunk, mb) for chunk in reversed(range(vpp)) for mb in group]
    warm_up = pp - 1 - rank if vpp == 1 else 2 * (pp - 1 - rank) + (vpp - 1) * pp
    warm_up = min(warm_up, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


def play(forward_s: Sequence[Sequence[float]], backward_s: Sequence[Sequence[float]], num_microbatches: int) -> float:
    """Time from the first start to the last end; durations are ``[rank][chunk]``, messages are free."""
    pp, vpp = len(forward_s), len(forward_s[0])
    queues = [rank_order(rank, pp, vpp, num_microbatches) for rank in range(pp)]
    done: dict[tuple[int, Task], float] = {}
    clock = [0.0] * pp
    while any(queues):
        advanced = False
        for rank, queue in enumerate(queues):
            while queue:
                needed = _needed(rank, queue[0], pp, vpp)
                if needed is not None and needed not in done:
                    break
                task = queue.pop(0)
                duration = (backward_s if task.backward else forward_s)[rank][task.chunk]
                clock[rank] = max(clock[rank], done[needed] if needed else 0.0) + duration
                done[rank, task] = clock[rank]
                advanced = True
        assert advanced, "the order of the ranks deadlocks"
    return max(clock)


def _needed(rank: int, task: Task, pp: int, vpp: int) -> tuple[int, Task] | None:
    backward, chunk, micro_batch = task
    if not backward:
        if rank > 0:
            return rank - 1, task
        return (pp - 1, Task(False, chunk - 1, micro_batch)) if chunk > 0 else None
    if rank < pp - 1:
        return rank + 1, task
    return (0, Task(True, chunk + 1, micro_batch)) if chunk < vpp - 1 else (rank, Task(False, chunk, micro_batch))


def most_held(rank: int, pp: int, vpp: int, num_microbatches: int) -> tuple[int, list[int]]:
    """Most chunk activations that a rank holds at once, and how many of each chunk the first time it does."""
    held, most, at_most = [0] * vpp, 0, [0] * vpp
    for task in rank_order(rank, pp, vpp, num_microbatches):
        held[task.chunk] += -1 if task.backward else 1
        if sum(held) > most:
            most, at_most = sum(held), list(held)
    return most, at_most

"""A step of post-training as a max-plus program: tasks on pools of devices, in rounds that repeat."""

from __future__ import annotations

from collections.abc import Sequence

from documents.late_methods import dataclass

ROUNDS = 48  # rounds to simulate; the first half is the fill


@dataclass(frozen=True)
class Task:
    """One task of every step.

    It occupies all its ``pools`` for ``seconds``. Its result is available ``tail_s`` later, and no pool is busy meanwhile.
    ``after``: the results that it needs, as (name of a task, how many steps earlier). ``lag``: rounds behind the first task of
    its step. In a round every pool runs its tasks in the order of the program.
    """

    name: str
    pools: tuple[str, ...]
    seconds: float
    after: tuple[tuple[str, int], ...] = ()
    lag: int = 0
    tail_s: float = 0.0


@dataclass(frozen=True)
class Bar:
    """Seconds at which a task of a step occupied its pools, and at which its result was available (``made_s``)."""

    name: str
    step: int
    pools: tuple[str, ...]
    start_s: float
    end_s: float
    made_s: float
    waits_for: str  # the task or pool that delayed its start; "" at the start


@dataclass(frozen=True)
class Steady:
    """Steady state of a program: seconds a step, how busy each pool is, and the bars of the last rounds."""

    period_s: float
    busy_fraction: dict[str, float]
    bars: tuple[Bar, ...]


def steady(tasks: Sequence[Task], rounds: int = ROUNDS) -> Steady:
    """Steady state of a program of tasks.

    Parameters
    ----------
    tasks
        In the order in which each pool runs them in a round. A task comes after the tasks of its own step that it needs.
    rounds
        Rounds to simulate; the pace is measured in the second half.
    """
    free: dict[str, tuple[float, str]] = {}
    ready: dict[tuple[str, int], float] = {}
    bars: list[Bar] = []
    ends: list[float] = []
    for number in range(rounds):
        for task in tasks:
            step = number - task.lag
            if step < 0:
                continue
            waits = [free.get(pool, (0.0, "")) for pool in task.pools]
            waits += [(ready.get((name, step - back), 0.0), name) for name, back in task.after]
            start, cause = max(waits, default=(0.0, ""))
            end = start + task.seconds
            made = end + task.tail_s
            ready[task.name, step] = made
            for pool in task.pools:
                free[pool] = (end, task.name)
            bars.append(Bar(task.name, step, task.pools, start, end, made, cause if start > 0.0 else ""))
        ends.append(max((bar.end_s for bar in bars[-len(tasks) :]), default=0.0))
    half = rounds // 2
    period = (ends[-1] - ends[half - 1]) / (rounds - half)
    pools = {pool for task in tasks for pool in task.pools}
    busy = {pool: sum(task.seconds for task in tasks if pool in task.pools) for pool in sorted(pools)}
    return Steady(
        period_s=period,
        busy_fraction={pool: seconds / period if period > 0.0 else 0.0 for pool, seconds in busy.items()},
        bars=tuple(bars[-3 * len(tasks) :]),
    )


def streamed_end_s(ready_s: Sequence[float], service_s: float, *, transfer_s: float = 0.0) -> float:
    """Seconds until a server has finished micro-batches that arrive one after the other.

    Parameters
    ----------
    ready_s
        When each micro-batch is complete, in any order.
    service_s
        The server's time for one.
    transfer_s
        Transfer of one from the queue to the server; the next is read while one is served.
    """
    end = 0.0
    for arrival in sorted(ready_s):
        end = max(end, arrival + transfer_s) + max(service_s, transfer_s)
    return end

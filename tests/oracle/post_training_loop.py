"""Post-training event by event, written apart from the product: tokens of a rollout one at a time, steps on a clock of events."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence


def rollout(
    groups: Sequence[Sequence[int]], instances: int, slots: int, prompt: float, step_s: Callable[[int, float], float]
) -> list[float]:
    """Finish of every answer, group by group: each instance decodes token by token, first come first served."""
    finish: list[float] = []
    for instance in range(instances):
        waiting = [length for group in groups[instance::instances] for length in group]
        flying: list[list[int]] = []  # [made, wanted]
        clock = 0.0
        while waiting or flying:
            while waiting and len(flying) < slots:
                flying.append([0, waiting.pop(0)])
            clock += step_s(len(flying), prompt + sum(made for made, _ in flying) / len(flying))
            for request in flying:
                request[0] += 1
            finish += [clock for made, wanted in flying if made == wanted]
            flying = [request for request in flying if request[0] < request[1]]
    return finish


def separate_period_s(rollout_s: float, train_s: float, sync_s: float, staleness: int, steps: int = 120) -> float:
    """Seconds a step of two pools that exchange weights, by events: a worker takes what it may as soon as it is idle."""
    events: list[tuple[float, str]] = []
    ready = started = trained = synced = 0
    rolling = training = exchanging = False
    now, ends = 0.0, []
    while synced < steps:
        if trained > synced and not rolling and not exchanging and not training:
            exchanging = True
            heapq.heappush(events, (now + sync_s, "exchanged"))
        if not rolling and not exchanging and started <= synced + staleness:
            rolling, started = True, started + 1
            heapq.heappush(events, (now + rollout_s, "rolled"))
        if not training and not exchanging and trained == synced and ready > trained:
            training = True
            heapq.heappush(events, (now + train_s, "trained"))
        now, what = heapq.heappop(events)
        if what == "rolled":
            rolling, ready = False, ready + 1
        elif what == "trained":
            training, trained = False, trained + 1
        else:
            exchanging, synced = False, synced + 1
            ends.append(now)
    return (ends[-1] - ends[steps // 2]) / (steps - 1 - steps // 2)

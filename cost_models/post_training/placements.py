"""Placements of a step's tasks: for each placement, the tasks as a program on pools of devices."""

from __future__ import annotations

import math
from dataclasses import field
from enum import StrEnum

from cost_models.post_training.constants import constant
from cost_models.post_training.program import Steady, Task, steady, streamed_end_s
from documents.late_methods import dataclass
from documents.sentences import Sentence

ROLLOUT, TRAIN, SIDE, ALL = "rollout", "train", "reference", "all"
PIECES = 16  # number of pieces in which rollout hands over a batch
MOST_LAG = 16  # steps; more do not change the pace, and the program's fill must fit in its rounds


class PlacementKind(StrEnum):
    """The three placements of RL Fusion, and a mixture of them."""

    SEPARATE = "separate"  # rollout and training on separate devices
    COLOCATED = "train-infer-colocated"  # they share devices, reference and reward have others
    FULLY_COLOCATED = "fully-colocated"  # everything on all devices
    HYBRID = "hybrid"  # training devices also roll out, together with others that only roll out


@dataclass(frozen=True)
class Parts:
    """Seconds of each task of one step on its own devices.

    ``rollout_s`` is from the first prompt to the last answer. ``steady_rollout_s`` is the time for the same tokens if new prompts
    follow at once, so that no instance drains. ``to_rollout_s`` and ``to_train_s`` are changes of layout with loads and offloads.
    ``sync_s`` sends weights to devices that only roll out. ``train_share``: the share of a hybrid's devices that trains.
    ``queue_s``: all samples of a step through the storage of a queue. ``longest_s``: the longest answer while a whole batch
    runs with it.
    """

    rollout_s: float
    steady_rollout_s: float
    old_log_prob_s: float
    reference_s: float
    reward_s: float
    critic_s: float
    update_s: float
    to_rollout_s: float = 0.0
    to_train_s: float = 0.0
    sync_s: float = 0.0
    train_share: float = 1.0
    queue_s: float = 0.0
    longest_s: float = 0.0
    finish_s: tuple[float, ...] = field(default=(), repr=False)  # when each of ``PIECES`` parts of the answers is complete

    @property
    def training_s(self) -> float:
        """Seconds on the training side after the answers."""
        return self.old_log_prob_s + self.reference_s + self.reward_s + self.critic_s + self.update_s


@dataclass(frozen=True)
class Staleness:
    """Limits on how far rollout runs ahead of training.

    ``steps``: versions of the weights between an answer's start and its use (NeMo RL's ``max_trajectory_age_steps``, AReaL's
    ``max_head_offpolicyness``; ``None``: any number). ``partial``: answers continue across an update; otherwise the update waits
    for them. ``leftover_fraction``: part of a batch that can be unfinished when weights are exchanged (verl's
    ``staleness_threshold``); it replaces ``steps``. ``streams``: training starts on the answers that are complete.
    """

    steps: int | None = 0
    partial: bool = False
    leftover_fraction: float | None = None
    streams: bool = False


SYNCHRONOUS = Staleness()


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step in steady state, and its parts."""

    step_s: float
    parts: Parts
    program: Steady
    remainder_s: float


def step_time(
    kind: PlacementKind, parts: Parts, staleness: Staleness = SYNCHRONOUS, *, remainder_fraction: float | None = None
) -> StepTime:
    """Seconds of a step in steady state, for a placement and a staleness.

    Only separate devices and hybrids let rollout run ahead. ``remainder_fraction`` is the part of the step for reward, data and
    book-keeping; ``None``: the constant.
    """
    share = constant("remainder_fraction") if remainder_fraction is None else remainder_fraction
    program = steady(tasks_of(kind, parts, staleness))
    return StepTime(program.period_s * (1.0 + share), parts, program, program.period_s * share)


def tasks_of(kind: PlacementKind, parts: Parts, staleness: Staleness = SYNCHRONOUS) -> tuple[Task, ...]:
    """The program of a placement under a staleness."""
    if kind is PlacementKind.FULLY_COLOCATED:
        return _colocated(parts, (ALL,), parts.reference_s, parts.reward_s)
    if kind is PlacementKind.COLOCATED:
        return _colocated(parts, (SIDE,), *_side_pool_s(parts, staleness))
    if kind is PlacementKind.HYBRID:
        return _hybrid(parts, staleness)
    return _separate(parts, staleness)


def _side_pool_s(parts: Parts, staleness: Staleness) -> tuple[float, float]:
    """Exposed time of reference and reward on separate devices.

    A queue lets them finish most answers before the last answer comes.
    """
    both = parts.reference_s + parts.reward_s
    if not staleness.streams or not parts.finish_s or both <= 0.0:
        return parts.reference_s, parts.reward_s
    count = len(parts.finish_s)
    end = streamed_end_s(parts.finish_s, both / count, transfer_s=parts.queue_s / count)
    left = max(end - parts.rollout_s, both / count) / both
    return parts.reference_s * left, parts.reward_s * left


def _colocated(parts: Parts, side: tuple[str, ...], reference_s: float, reward_s: float) -> tuple[Task, ...]:
    """All tasks in one order on all devices; on a side pool the reference overlaps the old log-probabilities."""
    before_update = ("to_train", "old_log_prob", "reference", "reward", "critic")
    return (
        Task("to_rollout", (ALL,), parts.to_rollout_s, (("update", 1),)),
        Task("rollout", (ALL,), parts.rollout_s, (("to_rollout", 0),)),
        Task("to_train", (ALL,), parts.to_train_s, (("rollout", 0),)),
        Task("reward", side, reward_s, (("rollout", 0),)),
        Task("reference", side, reference_s, (("rollout", 0),)),
        Task("old_log_prob", (ALL,), parts.old_log_prob_s, (("to_train", 0),)),
        Task("critic", (ALL,), parts.critic_s, (("reward", 0),)),
        Task("update", (ALL,), parts.update_s, tuple((name, 0) for name in before_update)),
    )


def _hybrid(parts: Parts, staleness: Staleness) -> tuple[Task, ...]:
    """All devices roll out; while some train, the others continue, so training takes its share of the pool's time."""
    lag = lag_of(staleness)
    occupied = parts.steady_rollout_s if lag or staleness.partial else parts.rollout_s
    displaced = parts.train_share if lag else 1.0
    return (
        Task("rollout", (ALL,), occupied, (("update", 1 + lag),)),
        Task("training", (TRAIN,), parts.training_s, (("rollout", 0),), lag),
        Task("update", (ALL,), displaced * parts.training_s, (("rollout", 0),), lag),
        Task("sync", (ALL,), parts.sync_s, (("training", 0), ("update", 0)), lag),
    )


def _separate(parts: Parts, staleness: Staleness) -> tuple[Task, ...]:
    """Rollout ``lag`` steps ahead of training, in pieces if training starts on the answers that are complete."""
    lag = lag_of(staleness)
    pools = (TRAIN,)
    ends, tail = _pieces(parts, staleness)
    tasks: list[Task] = []
    before = 0.0
    first = (("sync", 1 + lag),)
    for index, end in enumerate(ends):
        after = first if index == 0 else ()
        tasks.append(Task(_named("rollout", index), (ROLLOUT,), end - before, after, tail_s=tail + parts.queue_s / len(ends)))
        before = end
    part = 1.0 / len(ends)
    for index in range(len(ends)):
        ready = ((_named("rollout", index), 0),)
        tasks += [
            Task(_named(name, index), pools, seconds * part, ready, lag)
            for name, seconds in (
                ("reward", parts.reward_s),
                ("reference", parts.reference_s),
                ("old_log_prob", 0.0 if staleness.leftover_fraction else parts.old_log_prob_s),
                ("critic", parts.critic_s),
                ("update", parts.update_s),
            )
        ]
    last = _named("update", len(ends) - 1)
    return (*tasks, Task("sync", (ROLLOUT, TRAIN), parts.sync_s, ((last, 0),), lag))


def lag_of(staleness: Staleness) -> int:
    """Steps that rollout runs ahead of training in the program. [steps]"""
    if staleness.leftover_fraction is not None:
        return 0
    return MOST_LAG if staleness.steps is None else min(staleness.steps, MOST_LAG)


def _pieces(parts: Parts, staleness: Staleness) -> tuple[tuple[float, ...], float]:
    """Times at which pieces of a batch leave the rollout pool, and the delay until each is complete."""
    if staleness.leftover_fraction:
        return _leftover_ends(parts, staleness.leftover_fraction), 0.0
    if staleness.partial:
        tail = 0.0 if staleness.steps is None else max(parts.rollout_s, parts.longest_s) - parts.steady_rollout_s
        tail = max(tail, 0.0)
        count = PIECES if staleness.streams else 1
        return tuple(parts.steady_rollout_s * (index + 1) / count for index in range(count)), tail
    if staleness.streams and parts.finish_s:
        return parts.finish_s, 0.0
    return (parts.rollout_s,), 0.0


def _leftover_ends(parts: Parts, fraction: float) -> tuple[float, ...]:
    """Completion time of each piece when part of the batch is left over from the previous step."""
    ends, last = [], 0.0
    for index in range(PIECES):
        share = (index + 1) / PIECES
        made = share - min(fraction, 1.0)
        reached = parts.finish_s[max(math.ceil(made * PIECES) - 1, 0)] if made > 0.0 and parts.finish_s else 0.0
        last = max(last, reached, parts.steady_rollout_s * share)
        ends.append(last)
    return tuple(ends)


def _named(name: str, index: int) -> str:
    return name if index == 0 else Sentence("{} {}", name, index + 1)

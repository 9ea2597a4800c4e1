"""A pipeline played event by event, slow and plain, from the rules of the schedules alone, to hold the product to account.

Every rank asks its rule (`tests.oracle.schedules`) for its next step, and starts it when it is free and the inputs are there.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.oracle.schedules import Rule, Step, rule_of

Duration = float | Mapping[Any, float] | Callable[..., float]


@dataclass(frozen=True)
class Durations:
    """Seconds, each a number, a mapping by (rank, chunk, micro batch), or a function of these.

    A whole backward, BW, lasts B + W if it is not given: where a schedule splits none, W may stay 0 and B be the whole. FB takes
    (rank, chunk and micro batch of the forward, chunk and micro batch of the backward); without it a fused step lasts F + BW.
    """

    F: Duration
    B: Duration
    W: Duration = 0.0
    BW: Duration | None = None
    FB: Duration | None = None

    def of(self, rank: int, step: Step) -> float:
        at = (step.chunk, step.micro_batch)
        if step.kind == "FB":
            behind = (step.backward_chunk, step.backward_micro_batch)
            if self.FB is not None:
                return _value(self.FB, rank, *at, *behind)
            return self.of(rank, Step("F", *at)) + self.of(rank, Step("BW", *behind))
        if step.kind == "BW":
            return _value(self.B, rank, *at) + _value(self.W, rank, *at) if self.BW is None else _value(self.BW, rank, *at)
        return _value({"F": self.F, "B": self.B, "W": self.W}[step.kind], rank, *at)


def _value(duration: Duration, *at: int) -> float:
    if isinstance(duration, Mapping):
        return float(duration[at])
    return float(duration(*at) if callable(duration) else duration)


class Span(NamedTuple):
    step: Step
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Result:
    """What every rank did, in its order."""

    spans: list[list[Span]]
    num_chunks: int

    @property
    def step_s(self) -> float:
        return max(spans[-1].end_s for spans in self.spans)

    def busy_s(self, rank: int) -> float:
        return sum(span.end_s - span.start_s for span in self.spans[rank])

    def bubble_s(self, rank: int) -> float:
        """Time of the step in which the rank computes nothing; sends that block it are in it."""
        return self.step_s - self.busy_s(rank)

    def own_bubble_s(self, rank: int) -> float:
        """The same between the rank's own first start and last end, as the zero bubble paper counts."""
        return self.spans[rank][-1].end_s - self.spans[rank][0].start_s - self.busy_s(rank)

    def peak_chunks(self, rank: int, kept_for_weight_gradient: float = 1.0) -> float:
        return sum(held_at_peak((span.step for span in self.spans[rank]), self.num_chunks, kept_for_weight_gradient))


def held_at_peak(
    steps: Iterable[Step], num_chunks: int, kept_for_weight_gradient: float = 1.0, *, both_of_pairs: bool = True
) -> list[float]:
    """Activations of each chunk of a rank when it first holds the most: from the start of a forward to the end of its backward.

    After an input gradient alone the share ``kept_for_weight_gradient`` stays until the weight gradient ends. Published figures
    count both passes of a fused step; without ``both_of_pairs`` its forward takes layer by layer the place of its backward.
    """
    released = {"BW": 1.0, "B": 1 - kept_for_weight_gradient, "W": kept_for_weight_gradient}
    held, at_peak = [0.0] * num_chunks, [0.0] * num_chunks
    for step in steps:
        if step.kind == "FB" and not both_of_pairs:
            held[step.backward_chunk] -= 1
        if step.kind in ("F", "FB"):
            held[step.chunk] += 1
            if sum(held) > sum(at_peak):
                at_peak = list(held)
        if step.kind == "FB":
            held[step.backward_chunk] -= 1 if both_of_pairs else 0
        elif step.kind != "F":
            held[step.chunk] -= released[step.kind]
    assert all(abs(chunks) < 1e-6 for chunks in held), "every activation is released"
    return at_peak


def simulate(
    schedule: str,
    pp: int,
    vpp: int,
    num_microbatches: int,
    durations: Durations,
    *,
    group_size: int | None = None,
    moe_fb_overlap: bool = False,
    dw_detach: bool = False,
    p2p_s: Duration = 0.0,
    p2p: str = "overlapped",
) -> Result:
    """Play one step of training, as ``play`` does."""
    rule = rule_of(schedule, pp, vpp, num_microbatches, group_size=group_size, moe_fb_overlap=moe_fb_overlap, dw_detach=dw_detach)
    return play(rule, pp, durations, p2p_s=p2p_s, p2p=p2p)


def play(
    rule: Rule,
    pp: int,
    durations: Durations,
    *,
    p2p_s: Duration = 0.0,
    p2p: str = "overlapped",
    start_s: Iterable[float] | None = None,
) -> Result:
    """Play the programs of all ranks, each from its ``start_s`` (default: 0).

    ``p2p_s`` is the time of a message between two ranks, by what its sender computed. ``p2p`` is ``overlapped``, where a message
    delays its receiver alone, or ``blocking``, where it occupies the sender too, as in Megatron's non-interleaved schedule.
    A fused step sends both of its messages at once.
    """
    assert p2p in ("overlapped", "blocking")
    programs = [rule.program(rank) for rank in range(pp)]
    upcoming = [next(program, None) for program in programs]
    free_s = [0.0] * pp if start_s is None else list(start_s)
    spans: list[list[Span]] = [[] for _ in range(pp)]
    arrival_s: dict[Key, float] = {}  # when an output is where it is needed; on the rank that made it, at once
    made_s: dict[Key, float] = {}
    events = sorted(free_s)
    now = 0.0
    while any(upcoming):
        started = False
        for rank, step in enumerate(upcoming):
            if step is None or free_s[rank] > now:
                continue
            if any((made_s if key.rank == rank else arrival_s).get(key, now + 1) > now for key in needs(rule, rank, step)):
                continue
            end = now + durations.of(rank, step)
            free_s[rank] = end
            for key in makes(rank, step):
                receiver = receiver_of(rule, key)
                message_s = _value(p2p_s, rank, key.chunk, key.micro_batch) if receiver not in (None, rank) else 0.0
                made_s[key], arrival_s[key] = end, end + message_s
                heapq.heappush(events, arrival_s[key])
                if p2p == "blocking":
                    free_s[rank] = max(free_s[rank], arrival_s[key])
            heapq.heappush(events, free_s[rank])
            spans[rank].append(Span(step, now, end))
            upcoming[rank] = next(programs[rank], None)
            started = True
        if not started:
            while events and events[0] <= now:
                heapq.heappop(events)
            assert events, f"the ranks wait for each other at {[str(step) for step in upcoming]}"
            now = events[0]
    return Result(spans, rule.num_chunks)


class Key(NamedTuple):
    """An output: of the forward or of the input gradient of a chunk for a micro batch."""

    backward: bool
    rank: int
    chunk: int
    micro_batch: int


def makes(rank: int, step: Step) -> list[Key]:
    made = []
    if step.kind in ("F", "FB"):
        made.append(Key(False, rank, step.chunk, step.micro_batch))
    if step.kind in ("B", "BW"):
        made.append(Key(True, rank, step.chunk, step.micro_batch))
    if step.kind == "FB":
        made.append(Key(True, rank, step.backward_chunk, step.backward_micro_batch))
    return made


def needs(rule: Rule, rank: int, step: Step) -> list[Key]:
    """Outputs that must have arrived before a step can start; a weight gradient needs its own input gradient."""
    if step.kind == "W":
        return [Key(True, rank, step.chunk, step.micro_batch)]
    needed = []
    for key in makes(rank, step):
        path = rule.path(key.micro_batch)
        place = path.index((rank, key.chunk))
        if not key.backward and place > 0:
            needed.append(Key(False, *path[place - 1], key.micro_batch))
        if key.backward:
            needed.append(Key(False, rank, key.chunk, key.micro_batch))
            if place < len(path) - 1:
                needed.append(Key(True, *path[place + 1], key.micro_batch))
    return needed


def receiver_of(rule: Rule, key: Key) -> int | None:
    """Rank that needs an output next; none after the last forward and the last input gradient."""
    path = rule.path(key.micro_batch)
    place = path.index((key.rank, key.chunk)) + (-1 if key.backward else 1)
    return path[place][0] if 0 <= place < len(path) else None

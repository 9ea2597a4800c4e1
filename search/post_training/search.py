"""The search of placements, splits, layouts and staleness for a post-training job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.step import PostTraining, PostTrainingStep, post_training_step, rolled_times, trained_times
from cost_models.post_training.training_side import TrainingTimes
from cost_models.serving.engine import ServingLayout, ServingWorkload
from documents.errors import InfeasibleError
from documents.sentences import Sentence
from search.session.progress import PRICE, Clock, Progress

SPLITS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)  # shares of the devices that roll out
SIDE_PARTS = (1 / 16, 1 / 8)  # shares of the devices for reference and reward
INSTANCES = 6  # layouts of an instance that are tried, the smallest first
NO_ROOM = Sentence("no layout of a rollout instance leaves room for a cache")

StepOf = Callable[[PlacementKind, int, int], PostTraining]
LayoutsOf = Callable[[ServingWorkload, PlacementKind], Sequence[ServingLayout]]


@dataclass(frozen=True)
class Split:
    """The devices of each pool of a placement."""

    kind: PlacementKind
    rollout_devices: int
    train_devices: int
    reference_devices: int | None = None


@dataclass(frozen=True)
class Candidate:
    """One priced choice: the indices of its split and its instance, and the numbers that rank it."""

    place: int
    instance: int
    kind: PlacementKind
    train_devices: int
    staleness_steps: int
    step_s: float
    fits: bool


@dataclass(frozen=True)
class Choice:
    """A candidate with all of its prices."""

    job: PostTraining
    step: PostTrainingStep
    staleness_steps: int

    @property
    def tokens_per_s(self) -> float:
        """Tokens of prompts and answers per second that are trained on, over the whole step."""
        return self.job.tokens / self.step.step_s


@dataclass(frozen=True)
class PlacementProgress(Progress):
    """The progress of a search; ``enumerated`` and ``legal`` count priced choices, ``fits_memory`` those that fit."""

    num_done: int = 0
    num_splits: int = 0


def splits(devices: int, node: int, *, has_reference: bool, kinds: Sequence[PlacementKind]) -> Iterator[Split]:
    """The pools of every placement, in whole nodes where a pool is that large."""
    for kind in kinds:
        if kind is PlacementKind.FULLY_COLOCATED:
            yield Split(kind, devices, devices)
        elif kind is PlacementKind.COLOCATED and has_reference:
            for part in SIDE_PARTS:
                if 0 < (side := _whole(devices * part, node)) < devices:
                    yield Split(kind, devices - side, devices - side, side)
        elif kind in (PlacementKind.SEPARATE, PlacementKind.HYBRID):
            for rollout in sorted({_whole(devices * part, node) for part in SPLITS}):
                if 0 < rollout < devices:
                    pool = rollout if kind is PlacementKind.SEPARATE else devices
                    yield Split(kind, pool, devices - rollout)


class PlacementSearch:
    """Prices every split with the layouts of its pools under every staleness, one layout of an instance at a time.

    The training layout is the fastest that fits its pool; it does not depend on the rollout. ``checkpoint`` continues an earlier
    search with the same arguments. ``clock`` returns seconds; without it timings are zero.
    """

    def __init__(
        self,
        step_of: StepOf,
        layouts_of: LayoutsOf,
        pools: Sequence[Split],
        *,
        max_staleness: int,
        is_queued: bool,
        clock: Clock | None = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        self._step_of, self._layouts_of, self.pools = step_of, layouts_of, pools
        self._max_staleness, self._is_queued = max_staleness, is_queued
        self._now: Clock = clock or (lambda: 0.0)
        self.priced: list[Candidate] = []
        self.refused: list[tuple[Split, str]] = []  # reasons why splits have no candidate
        self._place = self._instance = 0  # the next layout to price
        self._reason: str = NO_ROOM  # the reason for the current split, if it gets no candidate
        self._laid: dict[int, tuple[PostTraining, TrainingTimes, Sequence[ServingLayout]]] = {}
        self._known: dict[Candidate, Choice] = {}
        if checkpoint is not None:
            self.priced = [_candidate(row) for row in checkpoint["priced"]]
            self.refused = [(pools[place], reason) for place, reason in checkpoint["refused"]]
            self._place, self._instance, self._reason = (checkpoint[name] for name in ("place", "instance", "reason"))
        self._started_s = self._now() - (0.0 if checkpoint is None else checkpoint["elapsed_s"])

    @property
    def has_begun(self) -> bool:
        """Whether a step was done."""
        return self._place + self._instance > 0

    @property
    def is_done(self) -> bool:
        """Whether no split is left."""
        return self._place == len(self.pools)

    @property
    def progress(self) -> PlacementProgress:
        """Progress of the search."""
        number, fitting = len(self.priced), sum(one.fits for one in self.priced)
        done = (self._place + self._instance / INSTANCES) / max(len(self.pools), 1)
        best_s = min((one.step_s for one in self.priced), default=None)
        elapsed_s = self._now() - self._started_s
        return PlacementProgress(
            done, number, number, fitting, best_s, elapsed_s, phase=PRICE, num_done=self._place, num_splits=len(self.pools)
        )

    def checkpoint(self) -> dict[str, Any]:
        """The state as JSON: the prices, without their inputs."""
        return {
            "place": self._place,
            "instance": self._instance,
            "reason": self._reason,
            "elapsed_s": self._now() - self._started_s,
            "priced": [list(vars(one).values()) for one in self.priced],
            "refused": [[self.pools.index(split), reason] for split, reason in self.refused],
        }

    def advance(self) -> bool:
        """Price one more layout of an instance; ``False`` once there is none."""
        if self.is_done:
            return False
        try:
            job, trained, layouts = self._laid_out(self._place)
        except (InfeasibleError, ValueError) as error:
            self._next(str(error))
            return True
        if self._instance < len(layouts):
            self._price(job, trained, layouts[self._instance])
            self._instance += 1
        if self._instance >= len(layouts):
            has_some = any(one.kind is self.pools[self._place].kind for one in self.priced)
            self._next(None if has_some else self._reason)
        return True

    def ranked(self) -> list[Candidate]:
        """Priced choices: those that fit first, then by speed. ``InfeasibleError`` without any layout."""
        if not self.priced:
            reason = self.refused[0][1].rstrip(".") if self.refused else Sentence("there is no split")
            raise InfeasibleError(Sentence("No placement holds the job: {}.", reason))
        return sorted(self.priced, key=lambda one: (not one.fits, round(one.step_s, 6), one.staleness_steps))

    def pareto(self) -> list[Candidate]:
        """The fastest choice of each staleness, where more staleness is faster. The synchronous one comes first."""
        front: list[Candidate] = []
        ranked = self.ranked()
        fitting = [one for one in ranked if one.fits] or ranked
        for candidate in sorted(fitting, key=lambda one: (one.staleness_steps, one.step_s)):
            if not front or candidate.step_s < front[-1].step_s * (1.0 - 1e-9):
                if front and front[-1].staleness_steps == candidate.staleness_steps:
                    continue
                front.append(candidate)
        return front

    def choice(self, candidate: Candidate) -> Choice:
        """All prices of a candidate. They are computed again if another process priced it."""
        if candidate not in self._known:
            job, trained, layouts = self._laid_out(candidate.place)
            (staleness,) = (each for each in self._stalenesses(candidate.kind) if (each.steps or 0) == candidate.staleness_steps)
            chosen = replace(job, layout=layouts[candidate.instance], staleness=staleness)
            self._known[candidate] = Choice(chosen, post_training_step(chosen, trained), candidate.staleness_steps)
        return self._known[candidate]

    def _laid_out(self, place: int) -> tuple[PostTraining, TrainingTimes, Sequence[ServingLayout]]:
        if place not in self._laid:
            split = self.pools[place]
            job = replace(_step(self._step_of, split), reference_devices=split.reference_devices)
            self._laid[place] = job, trained_times(job), self._layouts_of(job.serving, split.kind)[:INSTANCES]
        return self._laid[place]

    def _price(self, job: PostTraining, trained: TrainingTimes, layout: ServingLayout) -> None:
        kind = self.pools[self._place].kind
        try:
            rolled = rolled_times(replace(job, layout=layout))
        except ValueError as error:
            self._reason = str(error)
            return
        for staleness in self._stalenesses(kind):
            chosen = replace(job, layout=layout, staleness=staleness)
            step = post_training_step(chosen, trained, rolled)
            steps, devices = staleness.steps or 0, chosen.train_devices
            one = Candidate(self._place, self._instance, kind, devices, steps, step.step_s, step.training.fits)
            self._known[one] = Choice(chosen, step, steps)
            self.priced.append(one)

    def _next(self, refusal: str | None) -> None:
        if refusal is not None:
            self.refused.append((self.pools[self._place], refusal))
        self._place, self._instance, self._reason = self._place + 1, 0, NO_ROOM

    def _stalenesses(self, kind: PlacementKind) -> Iterator[Staleness]:
        return _staleness(kind, self._max_staleness, is_queued=self._is_queued)


def _candidate(row: Sequence[Any]) -> Candidate:
    place, instance, kind, *others = row
    return Candidate(place, instance, PlacementKind(kind), *others)


def _step(step_of: StepOf, split: Split) -> PostTraining:
    """The step of a split. Devices that training does not use do rollouts."""
    job = step_of(split.kind, split.rollout_devices, split.train_devices)
    if split.kind is PlacementKind.SEPARATE and job.idle_train_devices:
        return step_of(split.kind, split.rollout_devices + job.idle_train_devices, job.training.cluster.num_devices)
    return job


def _staleness(kind: PlacementKind, most: int, *, is_queued: bool) -> Iterator[Staleness]:
    yield Staleness(0, streams=is_queued)
    if kind in (PlacementKind.SEPARATE, PlacementKind.HYBRID):
        for steps in range(1, most + 1):
            yield Staleness(steps, partial=True, streams=is_queued)


def _whole(devices: float, node: int) -> int:
    return round(devices / node) * node if devices >= node else max(round(devices), 1)

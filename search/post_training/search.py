"""The search of placements, splits, layouts and staleness for a post-training job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.step import PostTraining, PostTrainingStep, post_training_step, rolled_times, trained_times
from cost_models.post_training.training_side import TrainingTimes
from cost_models.serving.engine import ServingLayout, ServingWorkload
from documents.errors import InfeasibleError
from documents.sentences import Sentence
from search.executors.executor import SERIAL, Executor, Piece
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


class SplitPrices(NamedTuple):
    """All candidates of a split, those that may be shown with all prices, and the reason if it has none.

    ``is_refused``: training or rollout has no layout.
    """

    candidates: Sequence[Candidate]
    choices: Mapping[Candidate, Choice]
    reason: str
    is_refused: bool = False


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
    search with the same arguments. ``clock`` returns seconds; without it timings are zero. ``executor`` calls ``elsewhere`` with
    the indices of later splits, which prices them as ``split_prices`` of the same search does; the result is the same.
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
        executor: Executor = SERIAL,
        elsewhere: Callable[[int], SplitPrices] | None = None,
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
        self._executor, self._elsewhere = executor, elsewhere
        self._pieces: dict[int, Piece[SplitPrices]] = {}  # splits that are priced as a whole
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
        """Price one more layout of an instance, or a split as a whole beside others; ``False`` once there is none."""
        if self.is_done:
            return False
        self._share_out()
        if self._place in self._pieces:
            self._go_on_with(self._pieces[self._place])
            return True
        try:
            job, trained, layouts = self._laid_out(self._place)
        except (InfeasibleError, ValueError) as error:
            self._next(str(error))
            return True
        if self._instance < len(layouts):
            self._price(job, trained, layouts[self._instance])
            self._instance += 1
        if self._instance >= len(layouts):
            self._refuse_or_go_on(self._reason)
        return True

    def ranked(self) -> list[Candidate]:
        """Priced choices: those that fit first, then by speed. ``InfeasibleError`` without any layout."""
        if not self.priced:
            reason = self.refused[0][1].rstrip(".") if self.refused else Sentence("there is no split")
            raise InfeasibleError(Sentence("No placement holds the job: {}.", reason))
        return sorted(self.priced, key=_rank)

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
        try:
            found = self._choices(self._place, self._instance, job, trained, layout)
        except ValueError as error:
            self._reason = str(error)
            return
        self._known |= found
        self.priced += found

    def _choices(
        self, place: int, instance: int, job: PostTraining, trained: TrainingTimes, layout: ServingLayout
    ) -> dict[Candidate, Choice]:
        """Every staleness of one layout of an instance; ``ValueError`` if it has no rollout."""
        kind, found = self.pools[place].kind, {}
        rolled = rolled_times(replace(job, layout=layout))
        for staleness in self._stalenesses(kind):
            chosen = replace(job, layout=layout, staleness=staleness)
            step = post_training_step(chosen, trained, rolled)
            steps, devices = staleness.steps or 0, chosen.train_devices
            one = Candidate(place, instance, kind, devices, steps, step.step_s, step.training.fits)
            found[one] = Choice(chosen, step, steps)
        return found

    def split_prices(self, place: int) -> SplitPrices:
        """Every layout of a split under every staleness."""
        try:
            job, trained, layouts = self._laid_out(place)
        except (InfeasibleError, ValueError) as error:
            return SplitPrices((), {}, str(error), is_refused=True)
        known: dict[Candidate, Choice] = {}
        reason: str = NO_ROOM
        for instance, layout in enumerate(layouts):
            try:
                known |= self._choices(place, instance, job, trained, layout)
            except ValueError as error:
                reason = str(error)
        best: dict[int, Candidate] = {}  # of each staleness
        for one in sorted(known, key=_rank):
            best.setdefault(one.staleness_steps, one)
        return SplitPrices(tuple(known), {one: known[one] for one in best.values()}, reason)

    def _share_out(self) -> None:
        """Have later splits priced elsewhere, as far as there is room."""
        while self._executor.room and (piece := self._free_piece()) is not None:
            piece.give(self._executor)

    def _free_piece(self) -> Piece[SplitPrices] | None:
        """The next split behind the current one whose pricing has not begun."""
        place = next((place for place in range(self._place + 1, len(self.pools)) if place not in self._pieces), None)
        if self._elsewhere is None or place is None:
            return None
        piece = Piece(self._elsewhere, place, own=lambda: self.split_prices(place))
        self._pieces[place] = piece
        return piece

    def _go_on_with(self, piece: Piece[SplitPrices]) -> None:
        """Take the prices of the current split. Until they are there, price another one."""
        if piece.is_done:
            found = piece.result()
            self.priced += found.candidates
            self._known |= found.choices
            self._refuse_or_go_on(found.reason, is_refused=found.is_refused)
        elif not piece.is_taken:  # an interrupt came before it began
            piece.here()
        elif (other := self._free_piece()) is not None:
            other.here()
        else:
            piece.waited()

    def _refuse_or_go_on(self, reason: str, *, is_refused: bool = False) -> None:
        """Go on with the next split. One without candidates is refused if no other of its kind has any."""
        has_some = any(one.kind is self.pools[self._place].kind for one in self.priced)
        self._next(reason if is_refused or not has_some else None)

    def _next(self, refusal: str | None) -> None:
        if refusal is not None:
            self.refused.append((self.pools[self._place], refusal))
        self._place, self._instance, self._reason = self._place + 1, 0, NO_ROOM

    def _stalenesses(self, kind: PlacementKind) -> Iterator[Staleness]:
        return _staleness(kind, self._max_staleness, is_queued=self._is_queued)


def _rank(one: Candidate) -> tuple[bool, float, int]:
    return not one.fits, round(one.step_s, 6), one.staleness_steps


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

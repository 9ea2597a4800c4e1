"""Placements, splits, layouts and staleness of one post-training job, priced and ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.step import PostTraining, PostTrainingStep, post_training_step, rolled_times, trained_times
from cost_models.serving.engine import ServingLayout, ServingWorkload
from documents.errors import InfeasibleError

SPLITS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)  # of the devices that roll out
SIDE_PARTS = (1 / 16, 1 / 8)  # of the devices for reference and reward
INSTANCES = 6  # layouts of an instance that are tried, the smallest first

StepOf = Callable[[PlacementKind, int, int], PostTraining]
LayoutsOf = Callable[[ServingWorkload, PlacementKind], Sequence[ServingLayout]]


@dataclass(frozen=True)
class Split:
    """Devices of the pools of a placement."""

    kind: PlacementKind
    rollout_devices: int
    train_devices: int
    reference_devices: int | None = None


@dataclass(frozen=True)
class Candidate:
    """One priced choice."""

    job: PostTraining
    step: PostTrainingStep
    staleness_steps: int

    @property
    def tokens_per_s(self) -> float:
        """Of prompts and answers that are trained on, over the whole step."""
        return self.job.tokens / self.step.step_s


@dataclass(frozen=True)
class Found:
    """What a search priced, what fits before what does not and the faster first; ``refused``: why a split has no candidate."""

    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[Split, str], ...]

    def pareto(self) -> tuple[Candidate, ...]:
        """The fastest of each staleness, where more staleness is faster. The synchronous one comes first."""
        front: list[Candidate] = []
        fitting = [one for one in self.candidates if one.step.training.fits] or self.candidates
        for candidate in sorted(fitting, key=lambda one: (one.staleness_steps, one.step.step_s)):
            if not front or candidate.step.step_s < front[-1].step.step_s * (1.0 - 1e-9):
                if front and front[-1].staleness_steps == candidate.staleness_steps:
                    continue
                front.append(candidate)
        return tuple(front)


def splits(devices: int, node: int, *, has_reference: bool, kinds: Sequence[PlacementKind]) -> Iterator[Split]:
    """Pools of every placement, in whole nodes where a pool is that large."""
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


def search_placements(
    step_of: StepOf,
    layouts_of: LayoutsOf,
    pools: Sequence[Split],
    *,
    max_staleness: int,
    is_queued: bool,
) -> Found:
    """Prices every split with the layouts of its pools under every staleness it can have.

    A training layout is the fastest that fits on its pool, which no choice of rollout moves. ``InfeasibleError`` where nothing
    can be laid out.
    """
    found: list[Candidate] = []
    refused: list[tuple[Split, str]] = []
    for split in pools:
        try:
            job = replace(_step(step_of, split), reference_devices=split.reference_devices)
            trained = trained_times(job)
            layouts = layouts_of(job.serving, split.kind)[:INSTANCES]
        except (InfeasibleError, ValueError) as error:
            refused.append((split, str(error)))
            continue
        reasons = ["no layout of a rollout instance leaves room for a cache"]
        for layout in layouts:
            try:
                rolled = rolled_times(replace(job, layout=layout))
            except ValueError as error:
                reasons.append(str(error))
                continue
            for staleness in _staleness(split.kind, max_staleness, is_queued=is_queued):
                choice = replace(job, layout=layout, staleness=staleness)
                found.append(Candidate(choice, post_training_step(choice, trained, rolled), staleness.steps or 0))
        if not any(one.job.placement is split.kind for one in found):
            refused.append((split, reasons[-1]))
    if not found:
        raise InfeasibleError(f"No placement holds the job: {refused[0][1].rstrip('.') if refused else 'there is no split'}.")
    found.sort(key=lambda one: (not one.step.training.fits, round(one.step.step_s, 6), one.staleness_steps))
    return Found(tuple(found), tuple(refused))


def _step(step_of: StepOf, split: Split) -> PostTraining:
    """The step of a split; devices that training has no use for roll out."""
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

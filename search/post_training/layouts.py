"""Training and rollout layouts that fit a pool, and the default layout of a job that names none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.post_training.training_side import TrainingTimes, all_training_times
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import serving_memory
from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.workload import ModelShape, Workload
from documents.errors import InfeasibleError
from documents.sentences import Sentence

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 320, 512)
ROOM_FOR_CACHE = 0.35  # least part of the memory that an instance may fill for its cache
FULL = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1}


def strategy_of(
    model: ModelShape,
    devices: int,
    *,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    vpp: int = 1,
    micro_batch_size: int = 1,
    zero_stage: int = 1,
    recompute: bool = True,
) -> ParallelStrategy | None:
    """The training layout with these degrees on ``devices``; ``None`` where they do not divide the pool or the model."""
    product = tp * pp * cp
    if devices % product or devices < product or pp * vpp > model.num_layers + 2:
        return None
    dp = devices // product
    if model.num_attention_heads % tp or (cp * dp * tp) % ep or (model.moe is None and ep > 1):
        return None
    if model.moe is not None and model.moe.num_experts % ep:
        return None
    schedule = canonical_schedule(pp, vpp)
    return ParallelStrategy(
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        vpp=vpp if pp > 1 else 1,
        dp=dp,
        micro_batch_size=micro_batch_size,
        zero_stage=zero_stage,
        sequence_parallel=tp > 1,
        cp_algo=CpAlgo.RING if cp > 1 else CpAlgo.NONE,
        schedule=schedule,
        dispatcher=Dispatcher.ALLTOALL if model.moe is not None else Dispatcher.NONE,
        **(FULL if recompute else {}),  # type: ignore[arg-type]
    )


def training_layouts(workload: Workload, *, zero_stage: int | None = None) -> Iterator[ParallelStrategy]:
    """Layouts that are priced for a training pool, without and with full recompute."""
    model, devices = workload.model, workload.cluster.num_devices
    node = workload.cluster.profile.devices_per_node
    experts = [ep for ep in POWERS if ep <= devices] if model.moe is not None else [1]
    for tp in (degree for degree in POWERS[:4] if degree <= node):
        for pp in POWERS[:5]:
            for ep in experts:
                for recompute in (False, True):
                    stages = zero_stage if zero_stage is not None and pp == 1 else 1
                    found = strategy_of(model, devices, tp=tp, pp=pp, ep=ep, zero_stage=stages, recompute=recompute)
                    if found is not None:
                        yield found


@dataclass(frozen=True)
class PricedLayout:
    """A training layout with its times; ``cost_s`` is its part of a step."""

    strategy: ParallelStrategy
    times: TrainingTimes
    cost_s: float

    @property
    def key(self) -> tuple[bool, float]:
        """Smaller is better: layouts that fit, by time; then the others, by memory."""
        return not self.times.fits, self.cost_s if self.times.fits else self.times.peak_memory_bytes


def priced_layout(
    workload: Workload,
    candidates: Sequence[ParallelStrategy],
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
    cost_s: Callable[[ParallelStrategy, TrainingTimes], float] = lambda _, times: times.update_s,
) -> PricedLayout | None:
    """The fastest layout that fits, else the one of least memory; ``None`` where no candidate has a price."""
    if not candidates:
        return None
    priced = partial(
        all_training_times,
        workload,
        constants=constants,
        sequence_lengths=sequence_lengths,
        pack_length=pack_length,
        num_updates=num_updates,
    )
    found: list[PricedLayout] = []
    try:
        found = [PricedLayout(*pair, cost_s(*pair)) for pair in zip(candidates, priced(candidates), strict=True)]
    except ValueError:  # one that does not hold the model refuses all
        for strategy in candidates:
            with suppress(ValueError):
                times = priced([strategy])[0]
                found.append(PricedLayout(strategy, times, cost_s(strategy, times)))
    return min((one for one in found if np.isfinite(one.key[1])), key=lambda one: one.key, default=None)


def best_training_layout(
    workload: Workload,
    candidates: Sequence[ParallelStrategy],
    constants: Constants,
    sequence_lengths: NDArray[np.int64],
    *,
    pack_length: int,
    num_updates: int = 1,
) -> tuple[ParallelStrategy, TrainingTimes]:
    """Layout of ``priced_layout`` with the shortest update; ``InfeasibleError`` without a candidate."""
    found = priced_layout(workload, candidates, constants, sequence_lengths, pack_length=pack_length, num_updates=num_updates)
    if found is None:
        raise InfeasibleError(
            Sentence("No training layout fills {} devices for {}.", workload.cluster.num_devices, workload.model.name)
        )
    return found.strategy, found.times


def rollout_layouts(workload: ServingWorkload, *, memory_fraction: float = 0.9) -> list[ServingLayout]:
    """Layouts of an instance with room for a cache, smallest first; experts sliced inside a node, spread beyond it."""
    devices, node = workload.cluster.num_devices, workload.cluster.profile.devices_per_node
    found = []
    for tp in (degree for degree in POWERS if degree <= min(devices, 2 * node)):
        if workload.model.num_attention_heads % tp == 0:
            found.append(ServingLayout(tp=tp))
    if workload.model.moe is not None:
        for ep in (degree for degree in POWERS if degree <= min(devices, workload.model.moe.num_experts)):
            found += [ServingLayout(tp=tp, dp=ep // tp, ep=ep) for tp in (1, 2, 4, 8) if ep > 1 and ep % tp == 0 and tp <= node]
    return [layout for layout in found if has_room(workload, layout, memory_fraction)]


def default_rollout_layout(workload: ServingWorkload, *, memory_fraction: float = 0.9) -> ServingLayout:
    """The smallest instance with room for a cache, with tensor parallelism up to a node."""
    found = rollout_layouts(workload, memory_fraction=memory_fraction)
    if not found:
        raise InfeasibleError(
            Sentence(
                "No rollout instance of {} in {} fits on {} devices.",
                workload.model.name,
                workload.engine.precision,
                workload.cluster.num_devices,
            )
        )
    return min(found, key=lambda layout: (layout.num_devices, layout.ep, layout.dp))


def roomy_fraction(workload: ServingWorkload, layout: ServingLayout, least: float, most: float = 0.9) -> float:
    """The least fraction of memory, in steps of a tenth, with room for a cache; the largest one where none has."""
    tenths = [least + 0.1 * step for step in range(round((most - least) / 0.1) + 1)]
    return next((fraction for fraction in tenths if has_room(workload, layout, fraction)), most)


def has_room(workload: ServingWorkload, layout: ServingLayout, memory_fraction: float) -> bool:
    """Whether an instance's weights leave room for a useful cache."""
    memory = serving_memory(workload, layout, utilisation=memory_fraction)
    return memory.cache_bytes > ROOM_FOR_CACHE * memory.limit_bytes


def with_devices(workload: Workload, num_devices: int) -> Workload:
    """Copy of the workload on a pool of another size."""
    return replace(workload, cluster=replace(workload.cluster, num_devices=num_devices))

"""Training and rollout layouts that fit a pool, and the default layout of a job that names none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.post_training.training_side import Batching, TrainingPeaks, TrainingTimes, all_training_times, training_peaks
from cost_models.serving.engine import ServingLayout, ServingWorkload
from cost_models.serving.memory import serving_memory
from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from documents.errors import InfeasibleError
from documents.sentences import Sentence

Priced = TypeVar("Priced")
Result = TypeVar("Result")
_Place = tuple[int, ParallelStrategy]  # devices of a pool, and a layout that fills it
CostOf = Callable[[ParallelStrategy, TrainingTimes], float]

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 320, 512)
ROOM_FOR_CACHE = 0.35  # least part of the memory that an instance may fill for its cache
FULL = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1}
_BLOCK = {"recompute_method": RecomputeMethod.BLOCK}


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
    shard_size: int | None = None,
    recompute: bool = True,
    recompute_layers: int | None = None,
    stage_layers: Sequence[int] | None = None,
    cp_algo: CpAlgo = CpAlgo.RING,
    features: Feature = DEFAULT_FEATURES,
) -> ParallelStrategy | None:
    """The training layout with these degrees on ``devices``; ``None`` where they do not divide the pool or the model.

    ``recompute_layers``: the first ones of every virtual stage, in place of all. ``stage_layers``: of each pipeline stage.
    """
    product = tp * pp * cp
    if devices % product or devices < product or pp * vpp > model.num_layers + 2:
        return None
    dp = devices // product
    if model.num_attention_heads % tp or (cp * dp * tp) % ep or (model.moe is None and ep > 1):
        return None
    if model.moe is not None and model.moe.num_experts % ep:
        return None
    if stage_layers is not None and (len(stage_layers) != pp or sum(stage_layers) != model.num_layers or vpp > 1):
        return None
    again = FULL if recompute_layers is None else {**FULL, **_BLOCK, "recompute_num_layers": recompute_layers}
    if shard_size is not None and (dp * cp) % shard_size:
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
        optimizer_shard_size=shard_size or 0,
        sequence_parallel=tp > 1,
        cp_algo=cp_algo if cp > 1 else CpAlgo.NONE,
        ulysses_degree=cp if cp_algo is CpAlgo.ULYSSES else 1,
        schedule=schedule,
        dispatcher=Dispatcher.ALLTOALL if model.moe is not None else Dispatcher.NONE,
        features=features,
        layer_layout=None if stage_layers is None or pp == 1 else (tuple(stage_layers),),
        **(again if recompute else {}),  # type: ignore[arg-type]
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


@dataclass(frozen=True, eq=False)
class PoolPricing:
    """Prices layouts of training pools for one step's answers, each once; arguments as in ``training_times``.

    All workloads differ in the size of the pool alone.
    """

    constants: Constants
    sequence_lengths: NDArray[np.int64]
    pack_length: int
    num_updates: int = 1
    batching: Batching = Batching.PACKED
    _times: dict[_Place, TrainingTimes] = field(default_factory=dict, repr=False)
    _peaks: dict[_Place, tuple[float, bool]] = field(default_factory=dict, repr=False)

    def times(self, workload: Workload, strategies: Sequence[ParallelStrategy]) -> list[TrainingTimes]:
        """Times and memory of each layout; ``ValueError`` where one does not hold the model."""
        return self._once(self._times, workload, strategies, lambda others: self._price(all_training_times, workload, others))

    def peaks(self, workload: Workload, strategies: Sequence[ParallelStrategy]) -> TrainingPeaks:
        """Memory of each layout; ``ValueError`` as for ``times``."""

        def priced(others: Sequence[ParallelStrategy]) -> list[tuple[float, bool]]:
            found = self._price(training_peaks, workload, others)
            return list(zip(found.peak_bytes.tolist(), found.fits.tolist(), strict=True))

        pairs = self._once(self._peaks, workload, strategies, priced)
        return TrainingPeaks(
            np.array([peak for peak, _ in pairs], dtype=np.float64), np.array([fit for _, fit in pairs], dtype=bool)
        )

    def _once(
        self,
        known: dict[_Place, Priced],
        workload: Workload,
        strategies: Sequence[ParallelStrategy],
        price: Callable[[Sequence[ParallelStrategy]], Sequence[Priced]],
    ) -> list[Priced]:
        places = [(workload.cluster.num_devices, strategy) for strategy in strategies]
        if missing := [place for place in places if place not in known]:
            known.update(zip(missing, price([strategy for _, strategy in missing]), strict=True))
        return [known[place] for place in places]

    def _price(self, price: Callable[..., Result], workload: Workload, strategies: Sequence[ParallelStrategy]) -> Result:
        return price(
            workload,
            strategies,
            self.constants,
            self.sequence_lengths,
            pack_length=self.pack_length,
            num_updates=self.num_updates,
            batching=self.batching,
        )


@dataclass(frozen=True)
class Shortlist:
    """The layouts of a pool that fit and, of the others, the first of least memory: no other one can be chosen.

    ``least_bytes`` is the peak of the one that does not fit, infinite where there is none. ``may_fit``: some layout may fit.
    """

    workload: Workload
    strategies: Sequence[ParallelStrategy]
    least_bytes: float
    may_fit: bool

    @classmethod
    def of(cls, workload: Workload, candidates: Sequence[ParallelStrategy], pricing: PoolPricing) -> Shortlist:
        """The shortlist of the candidates; all of them where one that does not hold the model refuses all."""
        try:
            peak_bytes, fits = pricing.peaks(workload, candidates)
        except ValueError:
            return cls(workload, candidates, np.inf, may_fit=True)
        others = np.where(~fits & np.isfinite(peak_bytes), peak_bytes, np.inf)
        least_bytes = float(others.min(initial=np.inf))
        kept = fits | ((others == least_bytes) & (np.arange(len(fits)) == others.argmin())) if len(fits) else fits
        chosen = [candidate for candidate, is_kept in zip(candidates, kept.tolist(), strict=True) if is_kept]
        return cls(workload, chosen, least_bytes, may_fit=bool(fits.any()))

    def loses(self, best: PricedLayout) -> bool:
        """Whether its memory alone shows that none of its layouts comes before ``best``."""
        return not self.may_fit and (best.times.fits or self.least_bytes >= best.times.peak_memory_bytes)

    def priced(self, pricing: PoolPricing, cost_s: CostOf) -> PricedLayout | None:
        """The fastest layout that fits, else the one of least memory; ``None`` where no candidate has a price."""
        found: list[PricedLayout] = []
        try:
            found = self._priced(self.strategies, pricing, cost_s)
        except ValueError:  # one that does not hold the model refuses all
            for strategy in self.strategies:
                with suppress(ValueError):
                    found += self._priced([strategy], pricing, cost_s)
        return min((one for one in found if np.isfinite(one.key[1])), key=lambda one: one.key, default=None)

    def _priced(self, strategies: Sequence[ParallelStrategy], pricing: PoolPricing, cost_s: CostOf) -> list[PricedLayout]:
        times = pricing.times(self.workload, strategies) if strategies else []
        return [PricedLayout(*pair, cost_s(*pair)) for pair in zip(strategies, times, strict=True)]


def priced_layout(
    workload: Workload,
    candidates: Sequence[ParallelStrategy],
    pricing: PoolPricing,
    cost_s: CostOf = lambda _, times: times.update_s,
) -> PricedLayout | None:
    """The fastest layout that fits, else the one of least memory; ``None`` where no candidate has a price."""
    return Shortlist.of(workload, candidates, pricing).priced(pricing, cost_s)


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
    found = priced_layout(workload, candidates, PoolPricing(constants, sequence_lengths, pack_length, num_updates))
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

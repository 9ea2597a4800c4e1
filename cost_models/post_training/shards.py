"""Shards of every device in the training layout and in the rollout's: what it keeps, what arrives, and over which tier.

Devices are numbered as the cluster is filled. Training takes the first ones in Megatron's order [megatron-0.12,
parallel_state.py]: dense ranks tp, cp, dp, pp, expert ranks etp, ep, edp, pp over the same devices of a stage. The ranks of a
rollout instance are tp, pp, dp, and its experts are spread over tp and dp [vllm, parallel_state.py].

A tensor is cut along at most two axes: its tensor-parallel dimension, or the experts and the width of each. The pieces of both
layouts are intervals of an axis, so that the bytes that two devices share are products of lengths in whole units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.network.tiers import Network
from cost_models.schedules.schedule import ScheduleRules
from cost_models.serving.engine import ServingLayout
from cost_models.shapes.layer_keys import shard_sizes
from cost_models.shapes.layout import default_layout
from cost_models.shapes.parameters import layer_parameters, num_parameters
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import ModelShape, WorkloadError
from documents.late_methods import dataclass
from documents.sentences import Sentence

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class RankOrder(StrEnum):
    """Devices that form the instances of a rollout on training devices."""

    CONSECUTIVE = "consecutive"  # neighbours, as engines are started [verl-docs]
    MATCHED = "matched"  # at intervals, so that each device keeps a part of its own shard [hybridflow, section 5.3]


@dataclass(frozen=True)
class Pools:
    """Devices of the cluster that train, ``[0, training)``, and that roll out, ``[first_rollout, first_rollout + rollout)``."""

    training: int
    rollout: int
    first_rollout: int = 0
    order: RankOrder = RankOrder.CONSECUTIVE

    @property
    def shares_devices(self) -> bool:
        """Whether some devices do both."""
        return self.first_rollout < self.training


@dataclass(frozen=True)
class MovedShards:
    """Bytes of weights that each rollout device has, keeps and receives, ``[device]`` without those that no instance uses.

    ``received_bytes``, ``[tier, device]``, come from the nearest training device that holds them; ``sources``, of the same
    shape, counts its pieces from different devices. ``sent_bytes``: the most that a training device sends if every byte leaves
    the training pool once, 0 if rollout shares its devices.
    """

    wanted_bytes: Floats
    kept_bytes: Floats
    received_bytes: Floats
    sources: Ints
    sent_bytes: float

    @property
    def device_bytes(self) -> float:
        """The most bytes that a device receives."""
        return float(self.received_bytes.sum(axis=0).max(initial=0.0))

    @property
    def moved_fraction(self) -> float:
        """``device_bytes`` over the largest rollout shard."""
        largest = float(self.wanted_bytes.max(initial=0.0))
        return self.device_bytes / largest if largest > 0.0 else 0.0

    def tier_s(self, network: Network) -> Floats:
        """Seconds of the copies of each device at the full rate of each tier. ``[tier, device]``"""
        rows = zip(network.tiers, self.received_bytes, self.sources, strict=True)
        return np.stack([received / (tier.rate(sources) * tier.rate_fraction) for tier, received, sources in rows])

    def wire_s(self, network: Network) -> float:
        """Seconds of the links alone: the slowest receiver, or the busiest sender.

        Copies over several tiers take turns where collectives do (``sequential``), and run side by side elsewhere.
        """
        times = self.tier_s(network)
        each = times.sum(axis=0) if network.sequential else times.max(axis=0, initial=0.0)
        outer = network.tiers[-1]
        sent_s = self.sent_bytes / float(outer.rate(1.0) * outer.rate_fraction)
        return max(float(each.max(initial=0.0)), sent_s)


class _Axis(NamedTuple):
    """Edges of the pieces of one dimension in both layouts, in a common whole unit, and the pieces of each device."""

    trained: Ints
    served: Ints
    holds: Ints  # [training device]
    wants: Ints  # [rollout device]


class _Ranks(NamedTuple):
    """Coordinates of devices in one layout."""

    stage: Ints
    tp: Ints
    ep: Ints
    etp: Ints
    replica: Ints  # of dense weights
    expert_replica: Ints


def moved_shards(
    model: ModelShape,
    strategy: ParallelStrategy,
    layout: ServingLayout,
    pools: Pools,
    domains: Sequence[int | None],
    *,
    bytes_per_weight: float = 2.0,
) -> MovedShards:
    """Compare the shards of all devices under both layouts.

    MTP modules stay with training. Under ZeRO-3 a device holds a slice of its shard. Keys and values count as divided by tp also
    where tp exceeds their heads, as in ``layer_rank_parameters``.

    Parameters
    ----------
    domains
        Devices of a domain of each tier, from the inside out; they decide which holder is the nearest.
    bytes_per_weight
        Precision in which weights travel.

    Raises ``WorkloadError`` if ``pools.order`` cannot be formed.
    """
    held = _training_ranks(strategy)
    devices, served = _rollout_ranks(strategy, layout, pools, held)
    units = _units(model, strategy, layout)
    stage_sets = sorted({unit.stages for unit in units})
    is_in = np.array([np.isin(held.stage, stages) for stages in stage_sets]).T
    sizes = [size or pools.training + pools.first_rollout + pools.rollout for size in domains]
    found = _Moves(
        np.zeros(len(devices)),
        np.zeros(len(devices)),
        np.zeros((len(sizes), len(devices))),
        np.zeros((len(sizes), len(devices)), dtype=np.int64),
        np.zeros(len(held.stage)),
    )
    for tensor in ("sharded", "replicated", "experts"):
        weights = np.zeros((layout.pp, len(stage_sets)))
        once = np.zeros(len(stage_sets))
        for unit in units:
            size, column = getattr(unit, tensor) * bytes_per_weight, stage_sets.index(unit.stages)
            weights[unit.rollout_stage, column] += size
            once[column] += 0.0 if unit.is_again else size
        if weights.any():
            first, second = _axes(model, tensor, strategy, layout, held, served)
            found = found.plus(weights[served.stage], once, is_in, first, second, devices, sizes)
    return MovedShards(
        wanted_bytes=found.wanted,
        kept_bytes=found.kept,
        received_bytes=found.received,
        sources=found.sources,
        sent_bytes=0.0 if pools.shares_devices else float(found.sent.max(initial=0.0)),
    )


class _Moves(NamedTuple):
    """Sums over tensors: of rollout devices wanted, kept, received and sources; of training devices what they send once."""

    wanted: Floats
    kept: Floats
    received: Floats
    sources: Ints
    sent: Floats

    def plus(
        self,
        weights: Floats,
        once: Floats,
        is_in: NDArray[np.bool_],
        first: _Axis,
        second: _Axis,
        devices: Ints,
        domains: Sequence[int],
    ) -> _Moves:
        """These sums with one class of tensors.

        ``weights``: bytes of whole tensors that each rollout device needs a piece of, by the set of training stages that holds
        them. ``once`` counts no tensor twice. ``is_in``: training devices of each set.
        """
        wanted, kept, received, sources = self.wanted.copy(), self.kept.copy(), self.received.copy(), self.sources.copy()
        width = len(second.trained) - 1
        holds = first.holds * width + second.holds
        tables = [_holders(size, is_in, holds, (len(first.trained) - 1) * width) for size in domains]
        trains = devices < len(holds)
        own = np.where(trains, holds[np.where(trains, devices, 0)], -1)
        is_own = is_in[np.where(trains, devices, 0)]
        for one, one_part in _overlaps(first):
            for two, two_part in _overlaps(second):
                size, piece = (one_part * two_part)[:, None] * weights, one * width + two
                left = (size > 0.0) & ~(is_own & (own == piece)[:, None])
                wanted += size.sum(axis=1)
                kept += np.where(left, 0.0, size).sum(axis=1)
                for tier, (table, domain) in enumerate(zip(tables, domains, strict=True)):
                    place = np.minimum(devices // domain, len(table) - 1)  # the last row is of domains that do not train
                    near = left & table[place, :, piece]
                    received[tier] += np.where(near, size, 0.0).sum(axis=1)
                    sources[tier] += near.sum(axis=1)
                    left &= ~near
        part = _parts(first.trained)[first.holds] * _parts(second.trained)[second.holds]
        holders = np.array([np.bincount(holds[column], minlength=holds.max() + 1)[holds] for column in is_in.T]).T
        sent = self.sent + part * np.where(is_in, once / np.maximum(holders, 1), 0.0).sum(axis=1)
        return _Moves(wanted, kept, received, sources, sent)


def _holders(domain: int, is_in: NDArray[np.bool_], holds: Ints, num_pieces: int) -> NDArray[np.bool_]:
    """Whether a domain of so many devices has a holder of a piece, ``[domain, stages, piece]``, and a last row of none."""
    found = np.zeros(((len(holds) - 1) // domain + 2, is_in.shape[1], num_pieces), dtype=bool)
    device, stages = np.nonzero(is_in)
    found[device // domain, stages, holds[device]] = True
    return found


def _parts(edges: Ints) -> Floats:
    """Length of every piece as a part of the axis."""
    parts: Floats = np.diff(edges) / edges[-1]
    return parts


def _overlaps(axis: _Axis) -> list[tuple[Ints, Floats]]:
    """Pieces of training that overlap what each device wants, one after the other, and the parts of the axis that they share."""
    low, high = axis.served[axis.wants], axis.served[axis.wants + 1]
    first = np.searchsorted(axis.trained, low, side="right") - 1
    last = np.searchsorted(axis.trained, high, side="left")
    found = []
    for step in range(int((last - first).max(initial=0))):
        piece = np.minimum(first + step, len(axis.trained) - 2)
        shared = np.minimum(high, axis.trained[piece + 1]) - np.maximum(low, axis.trained[piece])
        found.append((piece, np.where(first + step < last, shared, 0) / axis.trained[-1]))
    return found


class _Unit(NamedTuple):
    """A layer, the embedding or the head: stages of training that hold it, the stage of rollout, and parameters by class."""

    stages: tuple[int, ...]
    rollout_stage: int
    sharded: float
    replicated: float
    experts: float
    is_again: bool = False  # the tied embedding, on the last stage of rollout


def _units(model: ModelShape, strategy: ParallelStrategy, layout: ServingLayout) -> list[_Unit]:
    trained = strategy.layer_layout or default_layout(model, strategy.pp, strategy.vpp, strategy.schedule)
    rules = strategy.schedule.rules
    stages: list[tuple[int, ...]] = []
    for chunk, row in enumerate(trained):
        for stage, count in enumerate(row):
            stages += [_ranks_of_stage(chunk, stage, strategy.pp, rules)] * count
    first = _ranks_of_stage(0, 0, strategy.pp, rules)
    last = _ranks_of_stage(len(trained) - 1, strategy.pp - 1, strategy.pp, rules)
    served = np.repeat(np.arange(layout.pp), rollout_stage_layers(model.num_layers, layout.pp))
    units = []
    for ranks, rollout_stage, kind in zip(stages, served.tolist(), model.kinds_of_layers(), strict=True):
        parts = layer_parameters(model.of_kind(kind), moe=kind.moe, local=kind.local)
        sharded = parts.attention_sharded + parts.mlp + parts.shared_experts
        units.append(_Unit(ranks, rollout_stage, sharded, parts.replicated, parts.experts))
    counts = num_parameters(model)
    ends = tuple(sorted({*first, *last})) if model.tied_embeddings else first
    units.append(_Unit(ends, 0, counts.embedding, 0.0, 0.0))
    if model.tied_embeddings and layout.pp > 1:
        units.append(_Unit(ends, layout.pp - 1, counts.embedding, 0.0, 0.0, is_again=True))
    units.append(_Unit(last, layout.pp - 1, counts.head, model.hidden_size, 0.0))
    return units


def _ranks_of_stage(chunk: int, stage: int, pp: int, rules: ScheduleRules) -> tuple[int, ...]:
    """Pipeline ranks that hold a virtual stage: a V turns, and of two streams each has a copy."""
    mirror = pp - 1 - stage
    if rules.is_vee:
        return (mirror if chunk % 2 else stage,)
    return tuple(sorted({stage, mirror})) if rules.num_streams > 1 else (stage,)


def rollout_stage_layers(num_layers: int, stages: int) -> Ints:
    """Layers of each stage of an instance [vllm, get_pp_indices]: surplus layers go before the last stage, backwards."""
    counts = np.full(stages, num_layers // stages)
    surplus = num_layers % stages
    counts[stages - 1 - surplus : stages - 1] += 1
    return counts


def _axes(
    model: ModelShape, tensor: str, strategy: ParallelStrategy, layout: ServingLayout, held: _Ranks, served: _Ranks
) -> tuple[_Axis, _Axis]:
    """The two axes of a class of tensors."""
    slices, expert_slices = weight_slices(strategy)
    of_slice = held.replica % slices
    none_held, none_wanted = np.zeros_like(held.stage), np.zeros_like(served.stage)
    whole = _even(1, 1, none_held, none_wanted)
    if tensor == "sharded":
        return _even(strategy.tp * slices, layout.tp, held.tp * slices + of_slice, served.tp), whole
    if tensor == "replicated":
        return _even(slices, 1, of_slice, none_wanted), whole
    assert model.moe is not None
    spread = layout.ep > 1
    number = model.moe.num_experts
    experts = _Axis(_edges(number, strategy.ep), _edges(number, layout.ep), held.ep, served.ep if spread else none_wanted)
    parts = 1 if spread else layout.tp
    return experts, _even(
        strategy.etp * expert_slices,
        parts,
        held.etp * expert_slices + held.expert_replica % expert_slices,
        none_wanted if spread else served.tp,
    )


def weight_slices(strategy: ParallelStrategy) -> tuple[int, int]:
    """Replicas over which dense weights are sliced, and those of experts: 1 below ZeRO-3, at most ``optimizer_shard_size``."""
    if strategy.zero_stage < 3:
        return 1, 1
    dense, experts = shard_sizes(StrategyBatch.of([strategy]))
    return int(dense[0]), int(experts[0])


def _even(trained: int, served: int, holds: Ints, wants: Ints) -> _Axis:
    """An axis that both layouts cut evenly."""
    unit = math.lcm(trained, served)
    return _Axis(np.arange(trained + 1) * (unit // trained), np.arange(served + 1) * (unit // served), holds, wants)


def _edges(number: int, ranks: int) -> Ints:
    """Edges of ``number`` experts over ranks; the first ranks take the surplus [vllm, determine_expert_map]."""
    counts = np.full(ranks, number // ranks)
    counts[: number % ranks] += 1
    return np.concatenate([[0], np.cumsum(counts)])


def _training_ranks(strategy: ParallelStrategy) -> _Ranks:
    """Coordinates of every training device, in order."""
    size = strategy.tp * strategy.cp * strategy.dp
    device = np.arange(size * strategy.pp)
    rank = device % size
    expert = rank // strategy.etp
    return _Ranks(
        stage=device // size,
        tp=rank % strategy.tp,
        ep=expert % strategy.ep,
        etp=rank % strategy.etp,
        replica=rank // strategy.tp,
        expert_replica=expert // strategy.ep,
    )


def _rollout_ranks(strategy: ParallelStrategy, layout: ServingLayout, pools: Pools, held: _Ranks) -> tuple[Ints, _Ranks]:
    """Devices of all whole instances, and their coordinates."""
    number = pools.rollout // layout.num_devices * layout.num_devices
    devices = pools.first_rollout + np.arange(number)
    rank = np.arange(number) % layout.num_devices
    tp, stage, dp = rank % layout.tp, rank // layout.tp % layout.pp, rank // (layout.tp * layout.pp)
    if pools.order is RankOrder.MATCHED and pools.shares_devices:
        devices, stage, place = _matched(strategy, layout, pools, held)
        tp, dp = place % layout.tp, place // layout.tp
    spread = dp * layout.tp + tp
    return devices, _Ranks(stage, tp, spread, np.zeros_like(tp), dp, np.zeros_like(tp))


def _matched(strategy: ParallelStrategy, layout: ServingLayout, pools: Pools, held: _Ranks) -> tuple[Ints, Ints, Ints]:
    """Devices, their stages and their places in a stage such that pieces nest; experts come first if they are spread.

    A device with piece a of A takes place a G / A of G in its instance [hybridflow, section 5.3].
    """
    pieces, places = (strategy.ep * strategy.etp, layout.ep) if layout.ep > 1 else (strategy.tp, layout.tp)
    piece = held.ep * strategy.etp + held.etp if layout.ep > 1 else held.tp
    devices = np.arange(len(held.stage))
    stage = held.stage * layout.pp // strategy.pp
    place = piece * places // pieces
    order = np.lexsort((devices, place, stage))
    width = max(places // pieces, 1)
    each = len(devices) // (layout.pp * min(pieces, places))
    keys, counts = np.unique(np.stack([stage, place]), axis=1, return_counts=True)
    nests = strategy.pp % layout.pp == 0 and max(pieces, places) % min(pieces, places) == 0
    is_even = keys.shape[1] == layout.pp * min(pieces, places) and (counts == each).all() and each % width == 0
    if not nests or not is_even or len(devices) != pools.rollout:
        raise WorkloadError(
            Sentence(
                "rank order {}: instances of tp {}, pp {}, ep {} do not nest in training of tp {}, pp {}, ep {}, etp {}",
                RankOrder.MATCHED.value,
                layout.tp,
                layout.pp,
                layout.ep,
                strategy.tp,
                strategy.pp,
                strategy.ep,
                strategy.etp,
            )
        )
    arrival = np.empty_like(devices)
    arrival[order] = np.arange(len(devices)) % each
    return devices, stage, place + arrival % width

"""Strategies priced in groups that share a pipeline: all that composing a step needs, in closed form or task by task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import LayerActivations, layer_activations
from cost_models.layer.communication import network_of
from cost_models.layer.compute import ELEMENT_BYTES, Device
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.edges import EdgeCosts, edge_costs
from cost_models.layer.pairs import PairSavings, pair_savings
from cost_models.memory.model_states import ModelStates, StageParameters, model_states, stage_parameters
from cost_models.network.collectives import send_recv_s
from cost_models.network.tiers import Network
from cost_models.pipeline.merged_passes import MergedPasses
from cost_models.pipeline.stage_times import LayerCounts, PassTimes, chunk_counts, rank_counts
from cost_models.pipeline.stages import Stages, stages_of
from cost_models.shapes.acting import acting
from cost_models.shapes.layer_keys import Floats, distinct_rows, layer_keys
from cost_models.shapes.strategy import IntColumn, Schedule, StrategyBatch
from cost_models.shapes.switches import PRICED, Feature, Place, priced_bits
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import GradientExchange, accumulation_s, gradient_exchange, optimizer_s

Costs = TypeVar("Costs")


@dataclass(frozen=True)
class PricedKeys:
    """What is priced once per layer key ``[k]``, or gathered per strategy ``[n]``; layers of each kind."""

    layers: tuple[LayerCosts, ...]
    activations: tuple[LayerActivations, ...]
    edges: EdgeCosts
    savings: PairSavings | None


def _taken(value: Costs, index: IntColumn, *, tables: bool) -> Costs:
    """The same structure with every array in it indexed; tables of parts are left out unless asked for."""
    if isinstance(value, np.ndarray):
        return value.take(index, axis=-1)  # type: ignore[return-value]  # several times faster than value[..., index]
    if isinstance(value, dict):
        return {name: _taken(item, index, tables=tables) for name, item in value.items() if tables}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_taken(item, index, tables=tables) for item in value)  # type: ignore[return-value]
    if value is None:
        return value
    return type(value)(**{f.name: _taken(getattr(value, f.name), index, tables=tables) for f in fields(value)})  # type: ignore[arg-type]


def _price_keys(workload: Workload, batch: StrategyBatch, device: Device, network: Network) -> tuple[PricedKeys, IntColumn]:
    keys, index = layer_keys(batch)
    kinds = workload.model.layer_kinds()
    layers = tuple(layer_costs(workload, keys, device, network, moe=kind.moe, local=kind.local) for kind in kinds)
    stretch, merged = device.constants.hidden_stretch_fraction, keys.has(Feature.MOE_COMM_OVERLAP)
    priced = PricedKeys(
        layers=layers,
        activations=tuple(layer_activations(workload, keys, moe=kind.moe, local=kind.local) for kind in kinds),
        edges=edge_costs(workload, keys, device, network),
        savings=pair_savings(layers, merged, stretch) if any(kind.moe for kind in kinds) and merged.any() else None,
    )
    return priced, index


def pipeline_sends_s(workload: Workload, batch: StrategyBatch, network: Network) -> Floats:
    """Pipeline sends of one micro batch on one rank: 2 v hops of 2 n h / t bytes, before anything hides them. ``[n]``

    Both directions of DualPipe send. The tensor-parallel ranks each send their slice.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.

    Returns
    -------
    Floats, ``[n]``, seconds a micro batch
    """
    tokens = workload.training.seq_length * batch.micro_batch_size / batch.cp
    moved = ELEMENT_BYTES * tokens * workload.model.hidden_size / batch.tp
    chunks = np.where(batch.schedule == int(Schedule.DUALPIPE), 2, batch.vpp)
    hops: Floats = 2.0 * chunks * send_recv_s(moved, batch.pp, batch.tp * batch.cp * batch.dp, network)
    return hops


def _send_recv_s(workload: Workload, batch: StrategyBatch, network: Network, constants: Constants) -> tuple[Floats, Floats]:
    """Exposed and masked part of the pipeline sends. ``[n]``

    Without interleaving Megatron waits for every hop; with it, hops hide behind other chunks [megatron-0.12, schedules.py].
    Schedules that split the backward send in the background [zero-bubble-code; dualpipe].
    """
    hops = pipeline_sends_s(workload, batch, network)
    splitting = np.isin(batch.schedule, [schedule for schedule in Schedule if schedule.splits_backward])
    overlapped = splitting | ((batch.vpp > 1) & batch.has(Feature.OVERLAP_P2P))
    exposed = hops * np.where(overlapped, constants.p2p_exposed_fraction, 1.0)
    return exposed, hops - exposed


@dataclass(frozen=True)
class ShardedModel:
    """What the parameters on each rank cost, whatever runs over them: ``[stage, n]``, the optimizer ``[n]``."""

    parameters: StageParameters
    states: ModelStates
    exchange: GradientExchange
    accumulation_s: Floats
    optimizer_s: Floats


SHARDING_COLUMNS = ("tp", "dp", "cp", "ep", "etp", "zero_stage", "optimizer_shard_size")
# What rows of a group share, and what ZeRO-2 alone depends on.
SHARDING_FORMULAS_READ = (*SHARDING_COLUMNS, "pp", "vpp", "schedule", "micro_batch_size")


def _sharded_model(
    workload: Workload, batch: StrategyBatch, stages: Stages, layers: LayerCounts, device: Device, network: Network
) -> ShardedModel:
    """Priced once per distinct sharding, like layers per key, and gathered."""
    columns = [getattr(batch, name) for name in SHARDING_COLUMNS]
    micro_batches = np.where(batch.zero_stage == 2, batch.micro_batch_size, 0)  # ZeRO-2 scatters once a micro batch
    first, index = distinct_rows([*columns, micro_batches, batch.features & PRICED[Place.SHARDING]])
    few = batch.standing_for(first, Place.SHARDING, SHARDING_FORMULAS_READ)
    parameters = stage_parameters(workload, few, layers.layers, stages.is_first, stages.is_last)
    none = tuple(np.zeros_like(number) for number in layers.layers)
    edge_only = stage_parameters(workload, few, none, stages.is_first, stages.is_last)
    priced = ShardedModel(
        parameters=parameters,
        states=model_states(workload, few, parameters),
        exchange=gradient_exchange(workload, few, parameters, edge_only, network),
        accumulation_s=accumulation_s(workload, few, parameters, device),
        optimizer_s=optimizer_s(workload, few, parameters, device),
    )
    return _taken(priced, index, tables=True)


@dataclass(frozen=True)
class PricedGroup:
    """Strategies that share a pipeline, with all that composing a step in either fidelity needs; ``[kind, n]`` or ``[n]``."""

    batch: StrategyBatch
    stages: Stages
    num_microbatches: Floats
    layers: LayerCounts
    chunk_counts: list[LayerCounts]
    priced: PricedKeys
    sharded: ShardedModel
    p2p_s: Floats
    p2p_masked_s: Floats
    host_micro_batch_s: Floats

    @cached_property
    def rank(self) -> PassTimes:
        """Of whole ranks, with sends and gradient accumulation, which count with the backward."""
        saving_s = 0.0 if self.merged is None else self.merged.steady_s(self.batch.group_size)
        return self._times(self.layers, self.p2p_s + self.sharded.accumulation_s, saving_s)

    @cached_property
    def merged(self) -> MergedPasses | None:
        """What merged passes save; ``None`` where the schedule merges none."""
        savings = self.priced.savings
        return None if savings is None or not self.stages.merge_pairs else MergedPasses(self.stages, savings)

    def chunk(self, index: int) -> PassTimes:
        """Layers and edges of one chunk; where passes are merged, those of the chunk with each other.

        Parameters
        ----------
        index : int
            Chunk of layers on the rank.

        Returns
        -------
        PassTimes, ``[kind, n]``, seconds
            Without sends and gradient accumulation.
        """
        return self._times(self.chunk_counts[index], 0.0, 0.0 if self.merged is None else self.merged.of(index, index))

    def _times(self, counts: LayerCounts, extra_s: Floats | float, saving_s: Floats | float) -> PassTimes:
        return PassTimes(counts, self.stages, self.priced.layers, self.priced.edges, extra_s, saving_s)


def _price_group(
    workload: Workload,
    batch: StrategyBatch,
    shared: int,
    priced: PricedKeys,
    device: Device,
    network: Network,
    constants: Constants,
    *,
    merge: bool,
) -> PricedGroup:
    """Prices the parts of strategies that share a pipeline; ``merge`` puts equal ranks together.

    ``shared``: the switches that are part of what they share.
    """
    first = batch.row(0)
    stages = stages_of(
        workload.model,
        first.pp,
        first.vpp,
        first.layer_layout,
        first.recompute_layers_per_stage,
        schedule=first.schedule,
        merge_pairs=bool(shared & priced_bits(Feature.MOE_COMM_OVERLAP, Place.PIPELINE)),
        detach_weight_gradients=bool(shared & priced_bits(Feature.DUALPIPEV_DW_DETACH, Place.PIPELINE)),
        merge=merge,
    )
    counts = chunk_counts(stages, batch)
    layers = rank_counts(counts)
    p2p, p2p_masked = _send_recv_s(workload, batch, network, constants)
    dispatched = workload.software_traits.eager & ~batch.has(Feature.CUDA_GRAPH)  # kernel by kernel, from the host
    return PricedGroup(
        batch=batch,
        stages=stages,
        num_microbatches=batch.num_microbatches(workload.training.global_batch_size).astype(np.float64),
        layers=layers,
        chunk_counts=counts,
        priced=priced,
        sharded=_sharded_model(workload, batch, stages, layers, device, network),
        p2p_s=p2p,
        p2p_masked_s=p2p_masked,
        host_micro_batch_s=constants.host_micro_batch_s * np.where(dispatched, 1.0, 0.0),
    )


def priced_groups(
    workload: Workload, batch: StrategyBatch, constants: Constants, *, merge: bool, tables: bool
) -> Iterator[tuple[IntColumn, PricedGroup]]:
    """Groups of the batch with the rows of each; ``tables`` keeps the parts of layer costs for a breakdown.

    Raises ``ValueError`` for an empty batch, a layout that does not hold the model, or a precision without a peak.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    constants : Constants
        Calibrated values for the hardware family.
    merge : bool
        Whether equal ranks become one kind.
    tables : bool
        Whether parts of layer costs are kept.

    Yields
    ------
    tuple of IntColumn and PricedGroup
        Rows of the batch, and their group.
    """
    if len(batch) == 0:
        raise ValueError("no strategy to estimate")
    device, network = Device.of(workload, constants), network_of(workload, constants)
    priced, key_of = _price_keys(workload, batch, device, network)
    shared = acting(workload.model, batch, Feature(PRICED[Place.PIPELINE]))
    columns = [batch.pp, batch.vpp, batch.schedule, shared, batch.layout_index, batch.recompute_plan_index]
    first, group_of = distinct_rows(columns)
    order = np.argsort(group_of, kind="stable")
    bounds = np.searchsorted(group_of[order], np.arange(len(first) + 1))
    for start, end in pairwise(bounds):
        rows = order[start:end]
        gathered = _taken(priced, key_of[rows], tables=tables)
        switches = int(shared[rows[0]])
        yield rows, _price_group(workload, batch.take(rows), switches, gathered, device, network, constants, merge=merge)

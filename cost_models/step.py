"""Composes layer costs into the time and memory of a training step, for a whole batch of strategies."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TypeVar

import numpy as np

from cost_models.activations import LayerActivations, layer_activations
from cost_models.collectives import send_recv_s
from cost_models.compute import ELEMENT_BYTES, Device
from cost_models.constants import Constants
from cost_models.data_parallel import (
    GradientExchange,
    accumulation_s,
    exposed_exchange_s,
    gradient_exchange,
    optimizer_s,
)
from cost_models.edge_costs import EdgeCosts, edge_costs
from cost_models.estimate import Breakdown, Estimate
from cost_models.layer_comm import network_of
from cost_models.layer_costs import LayerCosts, layer_costs
from cost_models.layer_keys import Floats, distinct_rows, layer_keys
from cost_models.memory import held_activations, memory_estimate
from cost_models.model_states import ModelStates, StageParameters, model_states, stage_parameters
from cost_models.network import Network
from cost_models.pipeline import StageTimes, pipeline_lower_bound_s, pipeline_time
from cost_models.stages import Stages, stages_of
from cost_models.strategy import Feature, IntColumn, StrategyBatch
from cost_models.workload import Workload

Costs = TypeVar("Costs")

LAYER_TIME_PARTS = ("matmul", "attention", "vector", "permute", "tp_comm", "cp_comm", "ep_comm", "weight_gather", "host")


@dataclass(frozen=True)
class PricedKeys:
    """What is priced once per layer key ``[k]``, or gathered per strategy ``[n]``."""

    dense: LayerCosts
    dense_activations: LayerActivations
    edges: EdgeCosts
    moe: LayerCosts | None
    moe_activations: LayerActivations | None


def _taken(value: Costs, index: IntColumn, *, tables: bool) -> Costs:
    """The same structure with every array in it indexed; tables of parts are left out unless asked for."""
    if isinstance(value, np.ndarray):
        return value[..., index]  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: _taken(item, index, tables=tables) for name, item in value.items() if tables}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_taken(item, index, tables=tables) for item in value)  # type: ignore[return-value]
    if value is None:
        return value
    return type(value)(**{f.name: _taken(getattr(value, f.name), index, tables=tables) for f in fields(value)})  # type: ignore[arg-type]


def _price_keys(workload: Workload, batch: StrategyBatch, device: Device, network: Network) -> tuple[PricedKeys, IntColumn]:
    keys, index = layer_keys(batch)
    has_moe = workload.model.moe is not None
    priced = PricedKeys(
        dense=layer_costs(workload, keys, device, network, moe=False),
        dense_activations=layer_activations(workload, keys, moe=False),
        edges=edge_costs(workload, keys, device, network),
        moe=layer_costs(workload, keys, device, network, moe=True) if has_moe else None,
        moe_activations=layer_activations(workload, keys, moe=True) if has_moe else None,
    )
    return priced, index


@dataclass(frozen=True)
class _Layers:
    """Layers of each kind of rank, ``[kind, 1]``, and how many of them are fully recomputed, ``[kind, n]``."""

    dense: Floats
    moe: Floats
    dense_again: Floats
    moe_again: Floats
    first_dense: Floats  # the same on the first chunk alone
    first_moe: Floats
    first_dense_again: Floats
    first_moe_again: Floats


def _count_layers(stages: Stages, batch: StrategyBatch) -> _Layers:
    again = [stages.recomputed(chunk, batch) for chunk in range(stages.vpp)]
    return _Layers(
        dense=stages.dense.sum(axis=1, dtype=np.float64)[:, None],
        moe=stages.moe.sum(axis=1, dtype=np.float64)[:, None],
        dense_again=sum((d for d, _ in again[1:]), again[0][0]),
        moe_again=sum((m for _, m in again[1:]), again[0][1]),
        first_dense=stages.dense[:, :1].astype(np.float64),
        first_moe=stages.moe[:, :1].astype(np.float64),
        first_dense_again=again[0][0],
        first_moe_again=again[0][1],
    )


def _stage_times(stages: Stages, layers: _Layers, priced: PricedKeys, per_micro_batch_s: Floats) -> StageTimes:
    """Sums layers and edges on every rank; ``per_micro_batch_s`` (sends, accumulation) counts with the backward."""
    dense, moe, edges = priced.dense, priced.moe, priced.edges
    extra = moe if moe is not None and stages.last_layer_is_moe else dense
    mtp = stages.mtp_layers
    last_forward = edges.head_forward_s * (1 + mtp) + mtp * (extra.forward_s + edges.mtp_projection_s)
    last_backward = edges.head_backward_s * (1 + mtp) + mtp * (extra.backward_s + 2.0 * edges.mtp_projection_s)
    last_compute_forward = edges.head_compute_s[0] * (1 + mtp) + mtp * (extra.forward_compute_s + edges.mtp_projection_s)
    last_compute_backward = edges.head_compute_s[1] * (1 + mtp) + mtp * (extra.backward_compute_s + 2.0 * edges.mtp_projection_s)
    only_chunk = stages.is_last if stages.vpp == 1 else np.zeros_like(stages.is_last)

    def summed(dense_each: Floats, moe_each: Floats | None, dense_count: Floats, moe_count: Floats) -> Floats:
        total: Floats = dense_count * dense_each
        return total if moe_each is None else total + moe_count * moe_each

    def of(cost: LayerCosts | None, name: str) -> Floats | None:
        return None if cost is None else getattr(cost, name)

    full, full_compute = "full_recompute_s", "full_recompute_compute_s"
    moe_full, moe_full_compute = of(moe, full), of(moe, full_compute)
    forward = summed(dense.forward_s, of(moe, "forward_s"), layers.dense, layers.moe)
    backward = summed(dense.backward_s, of(moe, "backward_s"), layers.dense, layers.moe)
    backward = backward + summed(dense.full_recompute_s, moe_full, layers.dense_again, layers.moe_again)
    compute_forward = summed(dense.forward_compute_s, of(moe, "forward_compute_s"), layers.dense, layers.moe)
    compute_backward = summed(dense.backward_compute_s, of(moe, "backward_compute_s"), layers.dense, layers.moe)
    compute_backward = compute_backward + summed(
        dense.full_recompute_compute_s, moe_full_compute, layers.dense_again, layers.moe_again
    )
    first_forward = summed(dense.forward_compute_s, of(moe, "forward_compute_s"), layers.first_dense, layers.first_moe)
    first_backward = summed(dense.backward_compute_s, of(moe, "backward_compute_s"), layers.first_dense, layers.first_moe)
    first_backward = first_backward + summed(
        dense.full_recompute_compute_s, moe_full_compute, layers.first_dense_again, layers.first_moe_again
    )
    return StageTimes(
        forward=forward + stages.is_first * edges.embedding_forward_s + stages.is_last * last_forward,
        backward=backward + stages.is_first * edges.embedding_backward_s + stages.is_last * last_backward + per_micro_batch_s,
        compute_forward=compute_forward + stages.is_first * edges.embedding_compute_s[0] + stages.is_last * last_compute_forward,
        compute_backward=compute_backward
        + stages.is_first * edges.embedding_compute_s[1]
        + stages.is_last * last_compute_backward,
        first_chunk_forward=first_forward + stages.is_first * edges.embedding_compute_s[0] + only_chunk * last_compute_forward,
        first_chunk_backward=first_backward + stages.is_first * edges.embedding_compute_s[1] + only_chunk * last_compute_backward,
    )


def _send_recv_s(workload: Workload, batch: StrategyBatch, network: Network, constants: Constants) -> tuple[Floats, Floats]:
    """Exposed and masked pipeline sends of one micro batch on one rank: 2 v hops of 2 n h / t bytes. ``[n]``

    The tensor-parallel ranks each send their slice. Without interleaving Megatron waits for every hop; with it, hops hide
    behind other chunks [megatron-0.12, schedules.py].
    """
    tokens = workload.training.seq_length * batch.micro_batch_size / batch.cp
    moved = ELEMENT_BYTES * tokens * workload.model.hidden_size / batch.tp
    hops = 2.0 * batch.vpp * send_recv_s(moved, batch.pp, batch.tp * batch.cp * batch.dp, network)
    overlapped = (batch.vpp > 1) & batch.has(Feature.OVERLAP_P2P)
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


SHARDING_FEATURES = int(
    Feature.REPLICATED_EMBEDDING
    | Feature.REUSE_FP32_PARAM
    | Feature.SWAP_OPTIMIZER
    | Feature.GRAD_REDUCE_IN_BF16
    | Feature.MOE_GROUPED_GEMM
)


def _sharded_model(
    workload: Workload, batch: StrategyBatch, stages: Stages, layers: _Layers, device: Device, network: Network
) -> ShardedModel:
    """Priced once per distinct sharding, like layers per key, and gathered."""
    columns = [batch.tp, batch.dp, batch.cp, batch.ep, batch.etp, batch.zero_stage, batch.optimizer_shard_size]
    micro_batches = np.where(batch.zero_stage == 2, batch.micro_batch_size, 0)  # ZeRO-2 scatters once a micro batch
    first, index = distinct_rows([*columns, micro_batches, batch.features & SHARDING_FEATURES])
    few = batch.take(first)
    parameters = stage_parameters(workload, few, layers.dense, layers.moe, stages.is_first, stages.is_last)
    none = np.zeros_like(layers.dense)
    edge_only = stage_parameters(workload, few, none, none, stages.is_first, stages.is_last)
    priced = ShardedModel(
        parameters=parameters,
        states=model_states(workload, few, parameters),
        exchange=gradient_exchange(workload, few, parameters, edge_only, network),
        accumulation_s=accumulation_s(workload, few, parameters, device),
        optimizer_s=optimizer_s(workload, few, parameters, device),
    )
    return _taken(priced, index, tables=True)


def _price_group(
    workload: Workload,
    batch: StrategyBatch,
    priced: PricedKeys,
    device: Device,
    network: Network,
    constants: Constants,
    *,
    breakdown: bool,
) -> Estimate:
    """Prices strategies that share pp, vpp, layout and recompute plan."""
    model = workload.model
    pp, vpp = int(batch.pp[0]), int(batch.vpp[0])
    layout, plan = int(batch.layout_index[0]), int(batch.recompute_plan_index[0])
    stages = stages_of(
        model,
        pp,
        vpp,
        batch.layouts[layout] if layout >= 0 else None,
        batch.recompute_plans[plan] if plan >= 0 else None,
        merge=not breakdown,
    )
    layers = _count_layers(stages, batch)
    m = batch.num_microbatches(workload.training.global_batch_size).astype(np.float64)

    sharded = _sharded_model(workload, batch, stages, layers, device, network)
    held = held_activations(stages, batch, m, priced.dense_activations, priced.moe_activations)
    memory = memory_estimate(workload, batch, stages, sharded.parameters, sharded.states, held, constants, breakdown=breakdown)

    p2p, p2p_masked = _send_recv_s(workload, batch, network, constants)
    accumulation, optimizer = sharded.accumulation_s, sharded.optimizer_s
    times = _stage_times(stages, layers, priced, p2p + accumulation)
    pipeline = pipeline_time(stages, times, m)
    data_parallel, data_parallel_masked = exposed_exchange_s(
        batch,
        sharded.exchange,
        times.forward,
        times.backward,
        stages.before_first @ times.forward / vpp,
        stages.before_first @ times.backward / vpp,
        constants.dp_exposed_fraction,
    )
    eager = workload.software.execution == "eager"
    host = constants.host_micro_batch_s * (m + pp - 1) * np.where(eager & ~batch.has(Feature.CUDA_GRAPH), 1.0, 0.0)
    once = data_parallel + optimizer + constants.step_overhead_s + host
    step = pipeline.steady_s + pipeline.bubble_s + once
    # The bound counts what cannot be avoided: compute, the optimizer, the fixed cost.
    bound = pipeline_lower_bound_s(stages, times, m) + optimizer + constants.step_overhead_s
    worst = memory.peak.argmax(axis=0)[None, :]

    def at(values: Floats, kind: IntColumn) -> Floats:
        chosen: Floats = np.take_along_axis(values, kind, axis=0)[0]
        return chosen

    detail = None
    if breakdown:
        critical = pipeline.critical[None, :]
        steady, masked = _critical_parts(stages, layers, priced, critical, m)
        steady["pipeline_p2p"] = m * p2p
        steady["gradient_accumulation"] = m * at(accumulation, critical)
        steady["pipeline_bubble"] = pipeline.bubble_s
        steady["dp_comm"] = data_parallel
        steady["optimizer"] = optimizer
        steady["host"] = steady["host"] + host
        steady["step_overhead"] = np.full(len(batch), constants.step_overhead_s)
        masked["pipeline_p2p"] = m * p2p_masked
        masked["dp_comm"] = data_parallel_masked
        detail = Breakdown(steady, masked, {name: at(part, worst) for name, part in memory.parts.items()})
    return Estimate(
        step_time_s=step,
        step_time_lower_bound_s=np.minimum(bound, step),
        peak_memory_bytes=memory.peak.max(axis=0),
        allocated_peak_bytes=memory.allocated.max(axis=0),
        allocated_first_iteration_bytes=memory.first_iteration.max(axis=0),
        allocated_after_step_bytes=memory.after_step.max(axis=0),
        reserved_peak_bytes=memory.reserved.max(axis=0),
        memory_limit_bytes=workload.cluster.profile.usable_hbm_bytes,
        breakdown=detail,
        stage_allocated_after_step_bytes=memory.after_step if breakdown else None,
        stage_allocated_first_iteration_bytes=memory.first_iteration if breakdown else None,
        stage_peak_memory_bytes=memory.peak if breakdown else None,
        stage_time_s=times.whole if breakdown else None,
    )


def _critical_parts(
    stages: Stages, layers: _Layers, priced: PricedKeys, critical: IntColumn, m: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Exposed and masked time by part on the critical rank over all micro batches, ``[n]`` each."""

    def at(values: Floats) -> Floats:
        chosen: Floats = np.take_along_axis(np.broadcast_to(values, (stages.num_kinds, len(m))), critical, axis=0)[0]
        return chosen

    dense_count, moe_count = at(layers.dense), at(layers.moe)
    is_first, is_last = at(stages.is_first), at(stages.is_last)
    mtp = stages.mtp_layers * is_last
    if stages.last_layer_is_moe and priced.moe is not None:
        moe_count = moe_count + mtp
    else:
        dense_count = dense_count + mtp
    again = at(layers.dense_again) * priced.dense.full_recompute_s
    if priced.moe is not None:
        again = again + at(layers.moe_again) * priced.moe.full_recompute_s
    edges = priced.edges
    steady: dict[str, Floats] = {}
    for name in priced.dense.forward:
        part = dense_count * (priced.dense.forward[name] + priced.dense.backward[name])
        if priced.moe is not None:
            part = part + moe_count * (priced.moe.forward[name] + priced.moe.backward[name])
        steady[name] = m * part
    steady["recompute"] = steady["recompute"] + m * again
    steady["embedding"] = m * is_first * (edges.embedding_forward_s + edges.embedding_backward_s)
    head = (is_last + mtp) * (edges.head_forward_s + edges.head_backward_s) + 3.0 * mtp * edges.mtp_projection_s
    steady["head_and_loss"] = m * head
    masked: dict[str, Floats] = {}
    for name in priced.dense.masked:
        part = dense_count * priced.dense.masked[name]
        if priced.moe is not None:
            part = part + moe_count * priced.moe.masked[name]
        masked[name] = m * part
    return steady, masked


def _merge(rows: list[IntColumn], parts: list[Estimate], n: int) -> Estimate:
    """Scatters the groups' columns back to the rows of the batch."""

    def column(name: str) -> Floats:
        out = np.empty(n)
        for index, part in zip(rows, parts, strict=True):
            out[index] = getattr(part, name)
        return out

    def stage_column(name: str) -> Floats | None:
        pieces = [getattr(part, name) for part in parts]
        if pieces[0] is None:
            return None
        out = np.zeros((max(len(piece) for piece in pieces), n))
        for index, piece in zip(rows, pieces, strict=True):
            out[: len(piece), index] = piece
        return out

    def table(name: str) -> dict[str, Floats]:
        tables = [getattr(part.breakdown, name) for part in parts]
        merged = {key: np.empty(n) for key in tables[0]}
        for index, entries in zip(rows, tables, strict=True):
            for key, values in entries.items():
                merged[key][index] = values
        return merged

    has_detail = parts[0].breakdown is not None
    detail = Breakdown(table("time_s"), table("masked_s"), table("memory_bytes")) if has_detail else None
    columns = [f.name for f in fields(Estimate) if f.name not in ("memory_limit_bytes", "breakdown")]
    stage_names = [name for name in columns if name.startswith("stage_")]
    names = [name for name in columns if name not in stage_names]
    return Estimate(
        **{name: column(name) for name in names},
        **{name: stage_column(name) for name in stage_names},  # type: ignore[arg-type]
        memory_limit_bytes=parts[0].memory_limit_bytes,
        breakdown=detail,
    )


def estimate(workload: Workload, batch: StrategyBatch, constants: Constants, *, breakdown: bool = False) -> Estimate:
    """Step time, its lower bound and peak memory of ``n`` strategies. See ``Estimate`` for the columns.

    Strategies must be legal for ``any`` target (``search.legality``). Layer costs are priced once per distinct layer key
    and gathered; rows are grouped by pipeline shape. ``breakdown`` adds parts and per-stage columns. Raises
    ``ValueError`` for an empty batch, a layout that does not hold the model, or a precision without a peak.
    """
    if len(batch) == 0:
        raise ValueError("no strategy to estimate")
    device, network = Device.of(workload, constants), network_of(workload, constants)
    priced, key_of = _price_keys(workload, batch, device, network)
    columns = [batch.pp, batch.vpp, batch.layout_index, batch.recompute_plan_index]
    first, group_of = distinct_rows(columns)
    order = np.argsort(group_of, kind="stable")
    bounds = np.searchsorted(group_of[order], np.arange(len(first) + 1))
    rows = [order[start:end] for start, end in pairwise(bounds)]
    parts = [
        _price_group(
            workload,
            batch.take(index),
            _taken(priced, key_of[index], tables=breakdown),
            device,
            network,
            constants,
            breakdown=breakdown,
        )
        for index in rows
    ]
    return _merge(rows, parts, len(batch))

"""Traffic of each process group of a plan in a step: bytes through each tier of the network, and time.

The bytes come from the formulas that price time. On a network whose tiers carry one byte a second without latency, a collective
takes as many seconds as bytes cross that tier.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.communication import (
    context_parallel_comm,
    expert_comm,
    network_of,
    repeated_collectives,
    repeated_dispatch_s,
    tensor_parallel_comm,
    weight_comm,
)
from cost_models.layer.compute import Device
from cost_models.layer.edges import edge_costs
from cost_models.memory.model_states import quantised_parameters, stage_parameters
from cost_models.memory.whole_tensors import Taken
from cost_models.network.rank_placement import Group, members_per_domain, rank_groups
from cost_models.network.tiers import Network, Tier
from cost_models.shapes.layer_keys import Floats, LayerKeys, layer_keys
from cost_models.shapes.recompute_modules import repeats_exchange
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Cluster, LayerKind, Workload
from cost_models.step.data_parallel import exchange_of_step_s, gradient_exchange, replicated_sums_s, shared_table_s
from cost_models.step.orthogonalising import newton_schulz_comm_s
from cost_models.step.priced_groups import PricedGroup, pipeline_sends_s, priced_groups
from documents.late_methods import dataclass
from hardware_profiles.schema import Wiring


@dataclass(frozen=True)
class TierTraffic:
    """Traffic of one device through one tier in a step.

    ``members`` of the group share a domain of the tier and ``bytes_moved`` cross it. ``bandwidth_bytes_per_s`` is the maximum
    rate of the device to its peers in the group, at this site: in a mesh over the links to them.
    """

    tier: str
    wiring: Wiring
    members: float
    bytes_moved: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True)
class GroupTraffic:
    """One kind of process group over a step, on the pipeline rank ``stage`` where it takes longest.

    ``time_s`` is before compute hides any of it. ``tiers`` are those that the group crosses, from the inside out.
    """

    group: str  # tp | cp | ep | dp | expert_dp | pp
    size: int
    stride: int
    stage: int
    time_s: float
    tiers: tuple[TierTraffic, ...]


def step_traffic(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> tuple[GroupTraffic, ...]:
    """Traffic of one device in every group of more than one rank, in the order tp, cp, ep, dp, expert_dp, pp.

    ``strategy`` must be legal for ``any`` target. Groups that move nothing are left out. Raises the errors of
    ``cost_models.step.composition.estimate``.
    """
    batch = StrategyBatch.of([strategy])
    ((_, group),) = priced_groups(workload, batch, constants, merge=False, tables=False)
    network = network_of(workload, constants)
    elapsed = _per_step(workload, group, constants, network)
    ideal = replace(constants, expert_comm_factor=1.0, cp_factor=1.0)
    crossed = [_per_step(workload, group, ideal, _counting(network, tier)) for tier in range(len(network.tiers))]
    ranks = rank_groups(batch)
    placed = {"tp": ranks.tp, "cp": ranks.cp, "ep": ranks.ep, "dp": ranks.dp_cp, "expert_dp": ranks.edp, "pp": ranks.pp}
    return tuple(
        _group_traffic(name, placed[name], workload.cluster, time_s, [tier[name] for tier in crossed])
        for name, time_s in elapsed.items()
        if int(placed[name].size[0]) > 1 and time_s.max() > 0.0
    )


def sent_bytes(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> dict[str, Floats]:
    """Bytes that one device of each pipeline rank sends in a step, by kind of group, ``[stage]``.

    They are those of a network with a single switch: (n - 1) / n of what is gathered, scattered or exchanged among n ranks, twice
    of what is reduced to all. A count of the framework's own calls gives the same. ``strategy`` must be legal for ``any`` target.
    """
    ((_, group),) = priced_groups(workload, StrategyBatch.of([strategy]), constants, merge=False, tables=True)
    ideal = replace(constants, expert_comm_factor=1.0, cp_factor=1.0)
    network = network_of(workload, constants)
    switch = replace(network.tiers[-1], wiring=Wiring.SWITCH, domain_devices=None)
    flat = _counting(replace(network, tiers=(switch,), symmetric=True), 0)
    return _per_step(workload, group, ideal, flat, Taken.FIRST)


def _group_traffic(name: str, ranks: Group, cluster: Cluster, time_s: Floats, crossed: list[Floats]) -> GroupTraffic:
    stage = int(time_s.argmax())
    tiers = []
    for described, tier, moved in zip(cluster.profile.tiers, Network.of(cluster).tiers, crossed, strict=True):
        if moved[stage] == 0.0:
            continue
        members = float(members_per_domain(ranks.size, ranks.stride, tier.domain_devices)[0])
        rate = tier.rate(1.0 if name == "pp" else members - 1.0) * tier.rate_fraction
        tiers.append(TierTraffic(described.name, described.wiring, members, float(moved[stage]), float(rate)))
    return GroupTraffic(name, int(ranks.size[0]), int(ranks.stride[0]), stage, float(time_s[stage]), tuple(tiers))


def _counting(network: Network, counted: int) -> Network:
    """A network on which seconds equal the bytes through one tier; the other tiers take no time."""

    def tier(index: int, original: Tier) -> Tier:
        rate = 1.0 if index == counted else np.inf
        return replace(original, bandwidth_bytes_per_s=rate, link_bytes_per_s=rate, latency_s=0.0, rate_fraction=1.0, curves={})

    return replace(network, tiers=tuple(tier(i, t) for i, t in enumerate(network.tiers)), call_latency_s=0.0)


def _per_step(
    workload: Workload, group: PricedGroup, constants: Constants, network: Network, rank: Taken = Taken.FULLEST
) -> dict[str, Floats]:
    """Seconds of each kind of group over a step, ``[stage]``; ``rank``: of those that share whole tensors.

    Exchange that orthogonalises matrices of experts, over expert-tensor parallelism, counts as ``tp``.
    """
    optimizer = workload.training.optimizer
    keys, _ = layer_keys(workload, group.batch)
    passes = group.num_microbatches * group.stages.passes_fraction
    layers, heads = group.layers, group.layers.heads * (1 + group.stages.mtp_layers)
    held_layers = group.stages.with_mtp(layers.layers, layers.mtps)
    device = Device.of(workload, constants)
    edges = edge_costs(workload, keys, device, network)
    embedding = edges.embedding_forward_s + edges.embedding_backward_s - sum(edges.embedding_compute_s)
    head = edges.head_forward_s + edges.head_backward_s - sum(edges.head_compute_s) + edges.head_regather_s
    modules = group.stages.mtp_layers * layers.mtps * (sum(edges.mtp_comm_s) + edges.mtp_regather_s)
    total: dict[str, Floats] = {"tp": layers.embeddings * embedding + heads * head + modules}
    for kind, held, again in zip(group.stages.layer_kinds, held_layers, layers.again, strict=True):
        for name, (once, whole, selected) in _layer(workload, keys, constants, network, kind).items():
            total[name] = total.get(name, 0.0) + held * once + again * whole + (held - again) * selected
    total = {name: passes * each for name, each in total.items()}
    orthogonalising_s = group.sharded.of_matrices(lambda each: newton_schulz_comm_s(each, optimizer, network), rank)
    total["tp"] = total["tp"] + _sums_s(workload, group, network) + orthogonalising_s
    for name, exchanged in _gradient_exchange(workload, group, network).items():
        total[name] = total.get(name, 0.0) + exchanged
    sends = pipeline_sends_s(workload, group.batch, network)
    passed_on = passes * (group.stages.num_hops + sum(layers.relays)) * sends / (2.0 * group.stages.num_chunks)
    total["pp"] = passed_on + _table_s(workload, group, network)
    shape = (group.stages.num_kinds, 1)
    order = ("tp", "cp", "ep", "dp", "expert_dp", "pp")
    return {name: np.broadcast_to(total[name], shape)[:, 0] for name in order if name in total}


def _layer(
    workload: Workload, keys: LayerKeys, constants: Constants, network: Network, kind: LayerKind
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Seconds of one layer and micro batch by group, of its recomputed forward, and of its recomputed modules. ``[k]``"""
    workload = workload.of_kind(kind)
    tp = tensor_parallel_comm(workload, keys, network, moe=kind.moe, local=kind.local)
    compiled = not workload.software_traits.eager  # a compiled graph drops collectives that no gradient needs
    cp = context_parallel_comm(workload, keys, network, local=kind.local)
    none = np.zeros_like(tp.forward_s)
    again = (none, none) if compiled else (tp.forward_s, repeated_collectives(keys, tp, moe=kind.moe))
    parts = {
        "tp": (tp.forward_s + tp.backward_s + tp.regather_s, *again),
        "cp": (constants.cp_factor * (cp.forward_s + cp.backward_s), constants.cp_factor * cp.forward_s, none),
    }
    if kind.moe:
        ep = expert_comm(workload, keys, network, constants)
        exchange = ep.dispatch_s + ep.combine_s
        passes = 2.0 * exchange + repeated_dispatch_s(keys, ep)
        parts["ep"] = (passes, exchange, np.where(keys.recomputes(repeats_exchange(workload.model)), exchange, 0.0))
    one = np.ones_like(keys.tp)
    dense = replace(keys, expert_weight_shards=one, expert_weight_copies=one)
    experts = replace(keys, weight_shards=one, weight_copies=one)
    for name, alone in (("dp", dense), ("expert_dp", experts)):
        gather, scatter = weight_comm(workload, alone, network, moe=kind.moe, local=kind.local)
        parts[name] = (2.0 * gather + scatter, none, none)
    return parts


def _gradient_exchange(workload: Workload, group: PricedGroup, network: Network) -> dict[str, Floats]:
    """Seconds of gradient reduction and weight gathering once a step, ``[stage, 1]``."""
    layers, stages = group.layers, group.stages
    none = tuple(np.zeros_like(number) for number in layers.layers)
    edges = stage_parameters(workload, group.batch, none, stages.is_first, stages.is_last, stages.is_mtp)
    found, held = {}, group.sharded.trained
    in_stages = tuple(stages.layers.sum(axis=2, dtype=np.float64)[:, :, None])
    quantised = quantised_parameters(workload, group.batch, in_stages, stages.is_mtp)
    zeros = np.zeros_like(held.dense)
    for name, others, of_linears in (("dp", "experts", (quantised[0], zeros)), ("expert_dp", "dense", (zeros, quantised[1]))):
        none_of_ends = {"ends": zeros} if others == "dense" else {}
        of_group = replace(held, **{others: zeros}), replace(edges, **{others: zeros}, **none_of_ends)
        exchange = gradient_exchange(workload, group.batch, *of_group, zeros, network, of_linears, sum(in_stages, np.zeros(1)))
        reduce_s, gather_s = exchange_of_step_s(group.batch, exchange)
        found[name] = reduce_s + gather_s
    return found


def _table_s(workload: Workload, group: PricedGroup, network: Network) -> Floats:
    """Seconds a step of the all-reduce of shared embedding tables, ``[stage, 1]``."""
    stages = group.stages
    return shared_table_s(workload, group.batch, stages.is_first, stages.is_last, stages.is_mtp, network)


def _sums_s(workload: Workload, group: PricedGroup, network: Network) -> Floats:
    """Seconds a step of the all-reduce of gradients that tensor-parallel ranks share, ``[stage, 1]``."""
    stages = group.stages
    layers = tuple(stages.layers.sum(axis=2, dtype=np.float64)[:, :, None])
    return replicated_sums_s(workload, group.batch, layers, stages.is_last, stages.is_mtp, network)

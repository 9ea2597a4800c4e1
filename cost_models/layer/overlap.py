"""What communication hides behind the compute of its own layer, and how much longer that takes beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import activation_swap_s
from cost_models.layer.communication import (
    ExpertComm,
    context_parallel_comm,
    expert_comm,
    exposed_tp_fraction,
    tensor_parallel_comm,
    weight_comm,
)
from cost_models.layer.modules import LayerCompute
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload


@dataclass(frozen=True)
class Exposed:
    """One kind of communication of one layer and micro batch, columns ``[k]`` in seconds.

    ``forward_s`` and ``backward_s`` lengthen their passes. ``behind_*_s`` is what a pass hides, and compute that hides it, and
    no second communication.
    """

    forward_s: Floats
    backward_s: Floats
    behind_forward_s: Floats
    behind_backward_s: Floats
    masked_s: Floats  # of both passes; more than ``behind_*_s`` where kernels overlap within themselves


class LayerComm(NamedTuple):
    """What a layer and micro batch communicates, as far as its own compute does not hide it, by part of a breakdown."""

    tp_comm: Exposed
    cp_comm: Exposed
    ep_comm: Exposed
    weight_gather: Exposed  # ZeRO-3's, with the scatter of its gradients
    activation_swap: Exposed  # attention tensors to the host and back

    def contention_s(self, stretch: float, copy_stretch: float) -> tuple[Floats, Floats]:
        """How much longer the compute of either pass takes beside what it hides.

        Parameters
        ----------
        stretch : float
            ``hidden_stretch_fraction``: what a hidden second of a collective costs.
        copy_stretch : float
            ``host_copy_stretch``: what one of copying to or from the host does.

        Returns
        -------
        tuple of Floats, ``[k]``, seconds
            Forward and backward.
        """
        *collectives, copies = self
        none = np.zeros_like(copies.behind_forward_s)
        forward, backward = (
            sum((getattr(part, name) for part in collectives), none) for name in ("behind_forward_s", "behind_backward_s")
        )
        forward_s: Floats = stretch * forward + copy_stretch * copies.behind_forward_s
        backward_s: Floats = stretch * backward + copy_stretch * copies.behind_backward_s
        return forward_s, backward_s


def layer_comm(
    workload: Workload,
    keys: LayerKeys,
    network: Network,
    compute: LayerCompute,
    c: Constants,
    *,
    moe: bool,
    local: bool = False,
) -> tuple[LayerComm, ExpertComm]:
    """Prices what one layer of the given kind communicates beside its compute, per key.

    TP communication is left by the fused or overlapped kernels' exposed share, its backward also beside weight gradients; a ring
    hop hides behind the attention of its block; expert communication behind what ``_hidden_exchange_s`` says; ZeRO-3 gathers,
    then swapped activations, behind the compute of the layer that hides nothing else.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.
    compute : LayerCompute, ``[k]``
        What may hide communication.
    c : Constants
        Calibrated values for the hardware family.
    moe : bool
        A MoE layer, else a dense one.
    local : bool
        A layer with the model's ``local_attention``.

    Returns
    -------
    tuple of LayerComm and ExpertComm, ``[k]``, seconds
        Of one micro batch on one rank: what is left, and the expert exchange before anything hides it.
    """
    tp = _tensor_parallel(workload, keys, network, c, moe=moe, local=local)
    cp = _context_parallel(workload, keys, network, compute, c, local=local)
    experts, ep = _expert_parallel(workload, keys, network, compute, c, moe=moe)
    gather, scatter = weight_comm(workload, keys, network, moe=moe, local=local)
    # Compute that hides one communication already hides no second one.
    free_forward = compute.forward - cp.behind_forward_s - ep.behind_forward_s
    free_backward = compute.backward - cp.behind_backward_s - ep.behind_backward_s
    weights = _beside(gather, gather + scatter, free_forward, free_backward)
    swap_s = activation_swap_s(workload, keys, local=local)
    left_forward, left_backward = free_forward - weights.behind_forward_s, free_backward - weights.behind_backward_s
    return LayerComm(tp, cp, ep, weights, _beside(swap_s, swap_s, left_forward, left_backward)), experts


def host_copy_stretch(workload: Workload) -> float:
    """What a hidden second of copying to or from the host costs the compute beside it, at most.

    Copy engines take no core, only their share of the memory's bandwidth, which compute that is bound by memory misses. It is the
    same for ``swap_attention`` as for tensors that are chosen one by one.

    Parameters
    ----------
    workload : Workload
        Its hardware decides.

    Returns
    -------
    float
        Bytes a second of the host link over those of the device's memory.
    """
    profile = workload.cluster.profile
    return min(profile.host_link_bytes_per_s / profile.hbm_bytes_per_s, 1.0)


def _beside(forward_s: Floats, backward_s: Floats, window_forward: Floats, window_backward: Floats) -> Exposed:
    """One transfer in each pass, beside a window of compute in each.

    Parameters
    ----------
    forward_s : Floats, ``[k]``, seconds
        Transfer in the forward.
    backward_s : Floats, ``[k]``, seconds
        Transfer in the backward.
    window_forward : Floats, ``[k]``, seconds
        Compute beside it.
    window_backward : Floats, ``[k]``, seconds
        Compute beside it.
    stretch : float
        What a hidden second costs the compute beside it.

    Returns
    -------
    Exposed, ``[k]``
    """
    masked_forward, masked_backward = np.minimum(forward_s, window_forward), np.minimum(backward_s, window_backward)
    return Exposed(
        forward_s - masked_forward,
        backward_s - masked_backward,
        masked_forward,
        masked_backward,
        masked_forward + masked_backward,
    )


def _tensor_parallel(workload: Workload, keys: LayerKeys, network: Network, c: Constants, *, moe: bool, local: bool) -> Exposed:
    """Collectives around the attention and the MLP, of which fused or overlapped kernels leave a share.

    Returns
    -------
    Exposed, ``[k]``
    """
    tp = tensor_parallel_comm(workload, keys, network, moe=moe, local=local)
    fraction = exposed_tp_fraction(keys, c)
    forward = tp.forward_s * fraction
    beside = c.backward_tp_exposed_fraction if workload.software_traits.overlaps_weight_gradients else 1.0
    backward = tp.backward_s * fraction * beside
    masked = tp.forward_s + tp.backward_s - forward - backward + tp.regather_s
    none = np.zeros(len(keys.tp))  # fused kernels overlap within themselves
    return Exposed(forward, backward, none, none, masked)


def _context_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, local: bool
) -> Exposed:
    """Each ring hop is beside the attention of one block; in the backward it moves twice the bytes."""
    cp = context_parallel_comm(workload, keys, network, local=local)
    blocks = np.maximum(cp.num_hops + 1.0, 1.0)
    hop_s = cp.hop_s * c.cp_factor
    hop = _beside(hop_s, 2.0 * hop_s, compute.attention_forward / blocks, compute.attention_backward / blocks)
    all_to_all_s = cp.all_to_all_s * c.cp_factor
    return Exposed(
        all_to_all_s + cp.num_hops * hop.forward_s,
        all_to_all_s + cp.num_hops * hop.backward_s,
        cp.num_hops * hop.behind_forward_s,
        cp.num_hops * hop.behind_backward_s,
        cp.num_hops * hop.masked_s,
    )


def _expert_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, moe: bool
) -> tuple[ExpertComm, Exposed]:
    """Dispatch and combine before anything hides them, and what is left of them."""
    if not moe:
        none = np.zeros(len(keys.tp))
        return ExpertComm(none, none), Exposed(none, none, none, none, none)
    ep = expert_comm(workload, keys, network, c)
    hidden_forward, hidden_backward = _hidden_exchange_s(workload, keys, ep, compute.matmuls.moe, compute.shared_expert)
    ep_s = ep.dispatch_s + ep.combine_s
    both = hidden_forward + hidden_backward
    return ep, Exposed(ep_s - hidden_forward, ep_s - hidden_backward, hidden_forward, hidden_backward, both)


def _hidden_exchange_s(
    workload: Workload, keys: LayerKeys, exchange: ExpertComm, moe_matmuls_s: Floats, shared_s: Floats
) -> tuple[Floats, Floats]:
    """Of dispatch and combine together, what a forward and a backward that run alone hide. ``[k]``

    A switch that overlaps within the micro batch hides it behind the MoE matmuls, ``moe_shared_expert_overlap`` behind the shared
    experts. ``moe_comm_overlap`` hides it in merged pairs: a pass that runs alone sends and waits. On Ascend the shared experts
    run beside the dispatch, or in the backward beside the combine [mindspeed-fb-overlap, fwd.py; bwd.py], Megatron's overlap
    excludes them. In both a backward's dispatch is beside the experts' weight gradients
    [megatron-main, model_chunk_schedule_plan.py].

    Parameters
    ----------
    exchange : ExpertComm, ``[k]``, seconds
        Dispatch and combine of a forward.
    moe_matmuls_s : Floats, ``[k]``, seconds
        Routed and shared experts with the router, forward.
    shared_s : Floats, ``[k]``, seconds
        Shared experts alone, forward.

    Returns
    -------
    tuple of Floats, ``[k]``, seconds
        Forward and backward, at most the exchange itself.
    """
    gathers = keys.dispatcher == int(Dispatcher.ALLGATHER)
    overlapped = (keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM) & ~gathers) | (
        keys.has(Feature.MOE_ALLGATHER_OVERLAP_COMM) & gathers
    )
    merged = keys.has(Feature.MOE_COMM_OVERLAP) & ~overlapped
    beside = keys.has(Feature.MOE_SHARED_EXPERT_OVERLAP)
    if workload.device_traits.merged_pairs_overlap_shared_experts:
        beside = beside | merged
    shared = np.where(beside, shared_s, 0.0)
    window, both = np.where(overlapped, moe_matmuls_s, shared), exchange.dispatch_s + exchange.combine_s
    alone_backward = np.minimum(exchange.combine_s, 2.0 * shared) + np.minimum(exchange.dispatch_s, moe_matmuls_s - shared_s)
    return (
        np.minimum(np.where(merged, exchange.dispatch_s, both), window),
        np.where(merged, alone_backward, np.minimum(both, 2.0 * window)),
    )

"""What communication hides behind the compute of its own layer, and how it slows what hides it."""

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


def hidden(time: Floats, window: Floats, stretch: float) -> tuple[Floats, Floats]:
    """Exposed and masked part of communication beside ``window`` seconds of compute, which it stretches.

    Parameters
    ----------
    time : Floats, ``[k]``, seconds
        The communication.
    window : Floats, ``[k]``, seconds
        Compute that may hide it.
    stretch : float
        What a hidden second costs the compute beside it.

    Returns
    -------
    tuple of Floats, ``[k]``, seconds
        Together the whole of ``time``.
    """
    masked = np.minimum(time, window)
    return time - masked + stretch * masked, (1.0 - stretch) * masked


@dataclass(frozen=True)
class Exposed:
    """One kind of communication of one layer and micro batch, columns ``[k]`` in seconds.

    ``forward_s`` and ``backward_s`` lengthen their passes, ``masked_s`` is what both hide. ``behind_*_s`` is compute of the
    pass that hides it, and hides no second communication.
    """

    forward_s: Floats
    backward_s: Floats
    masked_s: Floats
    behind_forward_s: Floats
    behind_backward_s: Floats


class LayerComm(NamedTuple):
    """What a layer and micro batch communicates, as far as its own compute does not hide it, by part of a breakdown."""

    tp_comm: Exposed
    cp_comm: Exposed
    ep_comm: Exposed
    weight_gather: Exposed  # ZeRO-3's, with the scatter of its gradients
    activation_swap: Exposed  # attention tensors to the host and back


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
    stretch = c.hidden_stretch_fraction
    weights = _beside(gather, gather + scatter, free_forward, free_backward, stretch)
    swap_s = activation_swap_s(workload, keys, local=local)
    left_forward, left_backward = free_forward - weights.behind_forward_s, free_backward - weights.behind_backward_s
    swap = _beside(swap_s, swap_s, left_forward, left_backward, stretch)
    return LayerComm(tp, cp, ep, weights, swap), experts


def host_copy_stretch(workload: Workload) -> float:
    """What a hidden second of copying to or from the host costs the compute beside it, at most.

    Copy engines take no core, only their share of the memory's bandwidth, which compute that is bound by memory misses. So copies
    of single tensors are charged; ``swap_attention`` keeps the charge of collectives, with which constants were fitted.

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


def _beside(forward_s: Floats, backward_s: Floats, window_forward: Floats, window_backward: Floats, stretch: float) -> Exposed:
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
    exposed_forward, masked_forward = hidden(forward_s, window_forward, stretch)
    exposed_backward, masked_backward = hidden(backward_s, window_backward, stretch)
    return Exposed(
        exposed_forward,
        exposed_backward,
        masked_forward + masked_backward,
        np.minimum(forward_s, window_forward),
        np.minimum(backward_s, window_backward),
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
    backward = tp.backward_s * fraction * c.backward_tp_exposed_fraction
    masked = tp.forward_s + tp.backward_s - forward - backward + tp.regather_s
    none = np.zeros(len(keys.tp))  # fused kernels overlap within themselves
    return Exposed(forward, backward, masked, none, none)


def _context_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, local: bool
) -> Exposed:
    """Each ring hop is beside the attention of one block; in the backward it moves twice the bytes."""
    cp = context_parallel_comm(workload, keys, network, local=local)
    blocks = np.maximum(cp.num_hops + 1.0, 1.0)
    hop_s = cp.hop_s * c.cp_factor
    window_forward, window_backward = compute.attention_forward / blocks, compute.attention_backward / blocks
    hop = _beside(hop_s, 2.0 * hop_s, window_forward, window_backward, c.hidden_stretch_fraction)
    all_to_all_s = cp.all_to_all_s * c.cp_factor
    return Exposed(
        all_to_all_s + cp.num_hops * hop.forward_s,
        all_to_all_s + cp.num_hops * hop.backward_s,
        cp.num_hops * hop.masked_s,
        cp.num_hops * hop.behind_forward_s,
        cp.num_hops * hop.behind_backward_s,
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
    masked = 1.0 - c.hidden_stretch_fraction
    return ep, Exposed(
        ep_s - masked * hidden_forward,
        ep_s - masked * hidden_backward,
        masked * (hidden_forward + hidden_backward),
        hidden_forward,
        hidden_backward,
    )


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

"""Communication that a layer hides behind its own compute, and how much that slows the compute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import activation_swap_s
from cost_models.layer.communication import (
    REPEATS_COLLECTIVES,
    ExpertComm,
    context_parallel_comm,
    expert_comm,
    exposed_tp_fraction,
    repeated_collectives,
    repeated_dispatch_s,
    tensor_parallel_comm,
    weight_comm,
)
from cost_models.layer.modules import LayerCompute
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Exposed:
    """One kind of communication of one layer and micro batch, seconds ``[k]``.

    ``forward_s`` and ``backward_s`` are exposed and lengthen their passes. ``behind_*_s`` is the hidden part of a pass. The
    compute that hides it can hide no second communication.
    """

    forward_s: Floats
    backward_s: Floats
    behind_forward_s: Floats
    behind_backward_s: Floats
    masked_s: Floats  # sum of both passes; more than ``behind_*_s`` if kernels overlap within themselves


class LayerComm(NamedTuple):
    """Communication of a layer and micro batch that its own compute does not hide, by part of a breakdown."""

    tp_comm: Exposed
    cp_comm: Exposed
    ep_comm: Exposed
    weight_gather: Exposed  # ZeRO-3's, with the scatter of its gradients
    activation_swap: Exposed  # attention tensors to the host and back

    def contention_s(self, stretch: float, copy_stretch: float) -> tuple[Floats, Floats]:
        """Time that contention with hidden communication adds to the compute of the forward and of the backward. [s] ``[k]``

        Parameters
        ----------
        stretch
            ``hidden_stretch_fraction``: cost of a hidden second of a collective.
        copy_stretch
            ``host_copy_stretch``: cost of a hidden second of copying to or from the host.
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
    """Exposed communication of one layer of the given kind, and its expert exchange before compute hides it. ``[k]``

    Fused or overlapped kernels leave a fraction of TP communication, in the backward also after weight gradients. A ring hop
    hides behind the attention of its block. ``_hidden_exchange_s`` says what hides expert communication. ZeRO-3 gathers, then
    swapped activations, hide behind the layer's remaining compute.
    """
    tp = _tensor_parallel(workload, keys, network, compute, c, moe=moe, local=local)
    cp = _context_parallel(workload, keys, network, compute, c, local=local)
    experts, ep = _expert_parallel(workload, keys, network, compute, c, moe=moe)
    gather, scatter = weight_comm(workload, keys, network, moe=moe, local=local)
    # Compute that hides one communication already hides no second one.
    free_forward = compute.forward - cp.behind_forward_s - ep.behind_forward_s
    free_backward = compute.backward - cp.behind_backward_s - ep.behind_backward_s
    weights = _overlapped(gather, gather + scatter, free_forward, free_backward)
    swap_s = activation_swap_s(workload, keys, local=local)
    left_forward, left_backward = free_forward - weights.behind_forward_s, free_backward - weights.behind_backward_s
    return LayerComm(tp, cp, ep, weights, _overlapped(swap_s, swap_s, left_forward, left_backward)), experts


def host_copy_stretch(workload: Workload) -> float:
    """Upper bound on the slowdown of compute for each hidden second of copying to or from the host.

    It is the host link's bandwidth over the device memory's. Copy engines take no core, only memory bandwidth, which
    memory-bound compute then lacks. The same value holds for ``swap_attention`` and for tensors chosen one by one.
    """
    profile = workload.cluster.profile
    return min(profile.host_link_bytes_per_s / profile.hbm_bytes_per_s, 1.0)


def _overlapped(forward_s: Floats, backward_s: Floats, window_forward: Floats, window_backward: Floats) -> Exposed:
    """Overlap one transfer in each pass with a window of compute in each. ``[k]``

    Parameters
    ----------
    forward_s, backward_s : ``[k]``
        The transfers.
    window_forward, window_backward : ``[k]``, seconds
        Compute that can hide them.
    """
    masked_forward, masked_backward = np.minimum(forward_s, window_forward), np.minimum(backward_s, window_backward)
    return Exposed(
        forward_s - masked_forward,
        backward_s - masked_backward,
        masked_forward,
        masked_backward,
        masked_forward + masked_backward,
    )


def _tensor_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, moe: bool, local: bool
) -> Exposed:
    """Exposed fraction of the collectives around attention and MLP, under fused or overlapped kernels. ``[k]``

    In a backward the matmuls that follow a gather hide two collectives, each at most as long as themselves: the gathers of saved
    inputs hide behind the gradients of those inputs, and the scatters behind the weight gradients
    [megatron-0.12, tensor_parallel/layers.py].
    """
    tp = tensor_parallel_comm(workload, keys, network, moe=moe, local=local)
    fraction = exposed_tp_fraction(keys, c)
    forward = tp.forward_s * fraction
    beside = c.backward_tp_exposed_fraction if workload.software_traits.overlaps_weight_gradients else 1.0
    window, backward = compute.after_gather, tp.backward_s * fraction
    if workload.training.task.is_frozen:  # no weight gradient hides a scatter
        beside = 1.0
    beyond = np.maximum(backward * (1.0 - beside) - window, 0.0) + fraction * np.maximum(tp.regather_s - window, 0.0)
    backward = backward * beside + beyond
    masked = tp.forward_s + tp.backward_s + tp.regather_s - forward - backward
    none = np.zeros(len(keys.tp))  # fused kernels overlap within themselves
    return Exposed(forward, backward, none, none, masked)


def repeated_gather_s(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, moe: bool, local: bool = False
) -> Floats:
    """Exposed time to gather inputs again that are kept as gathered, beside the matmuls that follow them. [s] ``[k]``"""
    tp = tensor_parallel_comm(workload, keys, network, moe=moe, local=local)
    return exposed_tp_fraction(keys, c) * np.maximum(tp.kept_s - compute.after_gather, 0.0)


def repeated_tp_s(
    workload: Workload, keys: LayerKeys, network: Network, c: Constants, *, moe: bool, local: bool = False
) -> Floats:
    """Exposed tensor-parallel collectives that the recompute of selected modules repeats in the backward. [s] ``[k]``

    A compiled graph drops them: no gradient needs them.
    """
    again = (keys.recompute_modules & int(REPEATS_COLLECTIVES)) != 0
    if not workload.software_traits.eager or not (again & (keys.tp > 1)).any():
        return np.zeros(len(keys.tp))
    tp = tensor_parallel_comm(workload, keys, network, moe=moe, local=local)
    return repeated_collectives(keys, tp, moe=moe) * exposed_tp_fraction(keys, c)


def _context_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, local: bool
) -> Exposed:
    """Exposed ring hops, all-to-alls and gathers of keys.

    Each ring hop overlaps the attention of one block; a backward hop moves twice the bytes. Attention of gathered keys waits for
    the gather. Where it goes block by block, the rank's own block hides the gather, and each later block the gradients of the one
    before; the last block's are exposed [pytorch, _context_parallel/_attention.py].
    """
    cp = context_parallel_comm(workload, keys, network, local=local)
    by_blocks = keys.gathers_keys & workload.software_traits.attends_by_blocks
    blocks = np.where(by_blocks, keys.cp, np.maximum(cp.num_hops + 1.0, 1.0))
    forward_window, backward_window = compute.attention_forward / blocks, compute.attention_backward / blocks
    hop_s = cp.hop_s * c.cp_factor
    hop = _overlapped(hop_s, 2.0 * hop_s, forward_window, backward_window)
    gather_s, scatter_s, gradient_s = (part * c.cp_factor for part in cp.gathered)
    gather = _overlapped(gather_s, gather_s, *(np.where(by_blocks, each, 0.0) for each in (forward_window, backward_window)))
    num_hidden = np.maximum(cp.num_gradient_hops - 1.0, 0.0)
    behind = num_hidden * np.minimum(gradient_s, backward_window)
    together_s = cp.all_to_all_s * c.cp_factor
    return Exposed(
        together_s + cp.num_hops * hop.forward_s + gather.forward_s,
        together_s + cp.num_hops * hop.backward_s + gather.backward_s + scatter_s + cp.num_gradient_hops * gradient_s - behind,
        cp.num_hops * hop.behind_forward_s + gather.behind_forward_s,
        cp.num_hops * hop.behind_backward_s + gather.behind_backward_s + behind,
        cp.num_hops * hop.masked_s + gather.masked_s + behind,
    )


def _expert_parallel(
    workload: Workload, keys: LayerKeys, network: Network, compute: LayerCompute, c: Constants, *, moe: bool
) -> tuple[ExpertComm, Exposed]:
    """Dispatch and combine before compute hides them, and their exposed part."""
    if not moe:
        none = np.zeros(len(keys.tp))
        return ExpertComm(none, none), Exposed(none, none, none, none, none)
    ep = expert_comm(workload, keys, network, c)
    hidden_forward, hidden_backward = _hidden_exchange_s(workload, keys, ep, compute)
    ep_s, again_s = ep.dispatch_s + ep.combine_s, repeated_dispatch_s(keys, ep)
    # A repeated dispatch runs beside the gradients of the experts' inputs [mindspeed-fb-overlap, bwd.py].
    hidden_backward = hidden_backward + np.minimum(again_s, compute.matmuls.moe)
    both = hidden_forward + hidden_backward
    return ep, Exposed(ep_s - hidden_forward, ep_s + again_s - hidden_backward, hidden_forward, hidden_backward, both)


def _hidden_exchange_s(workload: Workload, keys: LayerKeys, exchange: ExpertComm, compute: LayerCompute) -> tuple[Floats, Floats]:
    """Hidden part of dispatch and combine together, in a forward and in a backward that run alone. [s] ``[k]``

    A switch that overlaps within the micro batch hides it behind the MoE matmuls. ``moe_shared_expert_overlap`` hides it behind
    the shared experts. ``moe_comm_overlap`` hides it in merged pairs, so a pass that runs alone sends and waits. On Ascend the
    shared experts then overlap the dispatch, or in the backward the combine [mindspeed-fb-overlap, fwd.py; bwd.py]; Megatron's
    overlap excludes them. In both, the dispatch of a backward overlaps the experts' weight gradients
    [megatron-main, model_chunk_schedule_plan.py].

    Parameters
    ----------
    exchange : ``[k]``, seconds
        Dispatch and combine of a forward.
    """
    moe_matmuls_s, shared_s = compute.matmuls.moe, compute.shared_expert
    shared_times = workload.training.task.matmuls_of_weight
    weights_s = moe_matmuls_s - compute.matmuls.frozen_block
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
    routed_weights_s = weights_s - (shared_times - 1.0) * shared_s
    alone_backward = np.minimum(exchange.combine_s, shared_times * shared) + np.minimum(exchange.dispatch_s, routed_weights_s)
    window_backward = np.where(overlapped, moe_matmuls_s + weights_s, shared_times * shared)
    return (
        np.minimum(np.where(merged, exchange.dispatch_s, both), window),
        np.where(merged, alone_backward, np.minimum(both, window_backward)),
    )

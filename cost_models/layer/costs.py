"""Time of one layer for one micro batch, per layer key: forward, backward, and what computing it again costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.layer.communication import ExpertComm
from cost_models.layer.compute import Device
from cost_models.layer.host import blocked_s, host_s, repeated_host_s
from cost_models.layer.modules import LayerCompute, layer_compute
from cost_models.layer.overlap import LayerComm, host_copy_stretch, layer_comm
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.workload import Workload


@dataclass(frozen=True)
class LayerCosts:
    """Columns ``[k]`` in seconds for one layer and one micro batch.

    ``forward`` and ``backward`` hold exposed time by part and sum to ``forward_s`` and ``backward_s``; ``masked`` is
    communication hidden behind them, forward and backward together. ``full_recompute_s`` is what a full recompute
    adds to the backward. ``weight_gradient_s`` is the part of the backward that only weight gradients need.
    ``pieces`` are both passes as ``cost_models.layer.pairs`` takes them apart, ``host`` what the host takes for either.
    """

    forward: dict[str, Floats]
    backward: dict[str, Floats]
    masked: dict[str, Floats]
    forward_s: Floats
    backward_s: Floats
    full_recompute_s: Floats
    weight_gradient_s: Floats
    pieces: dict[str, Floats]
    host: dict[str, Floats]


def layer_costs(
    workload: Workload, keys: LayerKeys, device: Device, network: Network, *, moe: bool, local: bool = False
) -> LayerCosts:
    """Price one layer of the given kind for every key: its compute, what communication adds, and the host.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.
    moe : bool
        A MoE layer, else a dense one.
    local : bool
        A layer with the model's ``local_attention``.

    Returns
    -------
    LayerCosts, ``[k]``
        Of one layer and one micro batch on one rank; pipeline sends, gradient accumulation and the optimizer are the step's.

    Notes
    -----
    A pass is matmuls, attention, vector work and permutation one after the other, plus what ``layer_comm`` leaves exposed,
    plus what the host needs beyond all that. The backward is twice the matmuls and vector work,
    the attention's own backward, and what selected modules compute again.

    Left out: streams that run on across the edge of a layer, contention of communication with kernels beyond
    ``hidden_stretch_fraction``.
    """
    compute = layer_compute(workload, keys, device, moe=moe, local=local)
    comm, exchange = layer_comm(workload, keys, network, compute, device.constants, moe=moe, local=local)
    dispatch, wait = host_s(workload, keys, device.constants, moe=moe)
    backward_dispatch = 2.0 * dispatch + repeated_host_s(workload, keys, device.constants, moe=moe)
    zero = np.zeros(len(keys.tp))
    stretch = device.constants.hidden_stretch_fraction
    contention_forward, contention_backward = comm.contention_s(stretch, host_copy_stretch(workload))
    experts_again = comm.ep_comm.forward_s + stretch * comm.ep_comm.behind_forward_s
    selective = compute.selective_recompute + np.where(keys.recomputes(RecomputeModule.MOE), experts_again, 0.0)
    forward = {
        "matmul": compute.matmuls.total,
        "attention": compute.attention_forward,
        "vector": compute.vector_forward,
        "permute": compute.permute,
        "recompute": zero,
        **{name: part.forward_s for name, part in comm._asdict().items()},
        "contention": contention_forward,
    }
    backward = {
        "matmul": 2.0 * compute.matmuls.total,
        "attention": compute.attention_backward,
        "vector": compute.vector_backward,
        "permute": compute.permute,
        "recompute": selective,
        **{name: part.backward_s for name, part in comm._asdict().items()},
        "contention": contention_backward,
    }
    # The host runs ahead while the device computes or communicates; only what it needs beyond that shows, unless launches block.
    blocked = blocked_s(workload)
    device_forward, device_backward = sum(forward.values(), zero), sum(backward.values(), zero)
    forward["host"] = np.maximum(dispatch - device_forward, blocked)
    backward["host"] = np.maximum(backward_dispatch - device_backward, 2.0 * blocked)
    forward["size_synchronisation"] = backward["size_synchronisation"] = wait
    forward_s, backward_s = sum(forward.values(), zero), sum(backward.values(), zero)
    # Merged pairs schedule the exchange of the experts anew, with the contention that it brings.
    alone_forward = forward_s - forward["host"] - experts_again
    alone_backward = backward_s - backward["host"] - comm.ep_comm.backward_s - stretch * comm.ep_comm.behind_backward_s
    again = _again_s(workload, compute, comm, exchange, stretch) + wait + blocked
    return LayerCosts(
        forward=forward,
        backward=backward,
        masked={name: part.masked_s for name, part in comm._asdict().items()},
        forward_s=forward_s,
        backward_s=backward_s,
        full_recompute_s=again - np.where(keys.recompute_modules > 0, selective, 0.0),
        weight_gradient_s=compute.matmuls.total,
        pieces=_pieces(compute, alone_forward, alone_backward, exchange, moe=moe),
        host={"forward": dispatch + wait, "backward": backward_dispatch + wait},
    )


def _again_s(workload: Workload, compute: LayerCompute, comm: LayerComm, exchange: ExpertComm, stretch: float) -> Floats:
    """A forward on the device once more, with its communication, up to what the backward needs of it.

    A compiled graph drops what no gradient needs: the last matmul of the layer and the TP collectives [mindformers-1.8].
    PyTorch's own checkpoints stop, since 2.1, at the last tensor that the backward kept: before that matmul, and before the
    combine [pytorch-checkpoint].

    Parameters
    ----------
    workload : Workload
        Its software decides what is computed again.
    compute : LayerCompute, ``[k]``
        Seconds that the layer computes.
    comm : LayerComm, ``[k]``
        Seconds that it communicates, exposed and masked.
    exchange : ExpertComm, ``[k]``, seconds
        Dispatch and combine of a forward before anything hides them.
    stretch : float
        What a hidden second costs the compute beside it.

    Returns
    -------
    Floats, ``[k]``, seconds
    """
    eager, since, year = workload.software_traits.eager, workload.software_traits.early_stop_year, workload.software.year
    stops = eager and since is not None and (year is None or year >= since)
    experts, ring = (part.forward_s + stretch * part.behind_forward_s for part in (comm.ep_comm, comm.cp_comm))
    if stops:
        whole = exchange.dispatch_s + exchange.combine_s
        experts = experts * exchange.dispatch_s / np.where(whole > 0, whole, 1.0)
    last = compute.matmuls.last if stops or not eager else 0.0
    again = compute.forward - last + (comm.tp_comm.forward_s if eager else 0.0)
    return again + ring + experts


def _pieces(
    compute: LayerCompute, alone_forward: Floats, alone_backward: Floats, exchange: ExpertComm, *, moe: bool
) -> dict[str, Floats]:
    """Both passes as merged pairs take them apart; the attention's pieces are what the others leave of a pass.

    Parameters
    ----------
    compute : LayerCompute, ``[k]``
        Seconds that the layer computes.
    alone_forward : Floats, ``[k]``, seconds
        A forward without its expert exchange and without what it waits for dispatch.
    alone_backward : Floats, ``[k]``, seconds
        The same of a backward.
    exchange : ExpertComm, ``[k]``
        Dispatch and combine before anything hides them.

    Returns
    -------
    dict of Floats, ``[k]``, seconds
    """
    shared, permute, attention = compute.shared_expert, compute.permute, compute.matmuls.attention
    experts = compute.matmuls.moe + compute.matmuls.mlp - shared
    dispatch, combine = exchange.dispatch_s, exchange.combine_s
    pieces = {
        "attention": alone_forward - experts - shared - permute,
        "experts": experts + permute,
        "experts_back": experts + permute,
        "attention_back": alone_backward - 2.0 * (experts + shared) - permute - attention,
        "experts_weights": experts,
        "attention_weights": attention,
    }
    if not moe:
        return pieces
    pieces |= {"shared": shared, "dispatch": dispatch, "combine": combine}
    return pieces | {"shared_back": 2.0 * shared, "combine_back": combine, "dispatch_back": dispatch}

"""Time of one layer for one micro batch, per layer key: forward, backward, and the cost of computing it again."""

from __future__ import annotations

import numpy as np

from cost_models.layer.communication import ExpertComm, repeated_dispatch_s
from cost_models.layer.compute import Device
from cost_models.layer.host import blocked_s, host_s, repeated_host_s
from cost_models.layer.modules import LayerCompute, layer_compute
from cost_models.layer.overlap import LayerComm, host_copy_stretch, layer_comm, repeated_tp_s
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.recompute_modules import repeats_exchange
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass


@dataclass(frozen=True)
class LayerCosts:
    """Seconds of one layer and one micro batch, columns ``[k]``.

    ``forward`` and ``backward`` hold exposed time by part; they sum to ``forward_s`` and ``backward_s``. ``masked`` is hidden
    communication of both passes together. ``full_recompute_s`` is what a full recompute adds to the backward.
    ``weight_gradient_s`` is the part of the backward that only weight gradients need. ``pieces`` are both passes divided for
    ``cost_models.layer.pairs``. ``host`` is the host's time for each pass.
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
    """Price one layer of the given kind for every key: compute, exposed communication and host.

    Pipeline sends, gradient accumulation and the optimizer belong to the step.

    Notes
    -----
    A pass is the sum of matmuls, attention, vector work and permutation, plus the communication that ``layer_comm`` leaves
    exposed, plus the host time beyond all that. The backward has twice the matmuls and vector work, attention's own backward, and
    the recompute of selected modules. Frozen weights have no gradient: their matmuls run once in a backward. A reference model
    runs the whole forward once more, beside that of the model.

    Left out: overlap across the edge of a layer, and contention of communication with kernels beyond ``hidden_stretch_fraction``.
    """
    compute = layer_compute(workload, keys, device, moe=moe, local=local)
    comm, exchange = layer_comm(workload, keys, network, compute, device.constants, moe=moe, local=local)
    dispatch, wait = host_s(workload, keys, device.constants, moe=moe, local=local)
    backward_dispatch = 2.0 * dispatch + repeated_host_s(workload, keys, device.constants, moe=moe, local=local)
    zero = np.zeros(len(keys.tp))
    stretch = device.constants.hidden_stretch_fraction
    contention_forward, contention_backward = comm.contention_s(stretch, host_copy_stretch(workload))
    experts_again = comm.ep_comm.forward_s + stretch * comm.ep_comm.behind_forward_s
    selective = compute.selective_recompute + np.where(keys.recomputes(repeats_exchange(workload.model)), experts_again, 0.0)
    selective = selective + repeated_tp_s(workload, keys, network, device.constants, moe=moe, local=local)
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
        "matmul": compute.matmuls.backward,
        "attention": compute.attention_backward,
        "vector": compute.vector_backward,
        "permute": compute.permute,
        "recompute": selective,
        **{name: part.backward_s for name, part in comm._asdict().items()},
        "contention": contention_backward,
    }
    # The host runs ahead while the device computes or communicates. Only its excess time shows, unless launches block.
    blocked = blocked_s(workload)
    device_forward, device_backward = sum(forward.values(), zero), sum(backward.values(), zero)
    forward["host"] = np.maximum(dispatch - device_forward, blocked)
    backward["host"] = np.maximum(backward_dispatch - device_backward, 2.0 * blocked)
    forward["size_synchronisation"] = backward["size_synchronisation"] = wait
    if workload.training.task.runs_reference:
        forward["reference"], backward["reference"] = sum(forward.values(), zero), zero
    forward_s, backward_s = sum(forward.values(), zero), sum(backward.values(), zero)
    # Merged pairs schedule the expert exchange and its contention again, so both are taken out here.
    alone_forward = forward_s - forward["host"] - experts_again
    alone_backward = backward_s - backward["host"] - comm.ep_comm.backward_s - stretch * comm.ep_comm.behind_backward_s
    again = _repeated_forward_s(workload, compute, comm, exchange, stretch) + wait + blocked
    return LayerCosts(
        forward=forward,
        backward=backward,
        masked={name: part.masked_s for name, part in comm._asdict().items()},
        forward_s=forward_s,
        backward_s=backward_s,
        full_recompute_s=again - np.where(keys.recompute_modules > 0, selective, 0.0),
        weight_gradient_s=compute.matmuls.weight_gradient,
        pieces=_pieces(workload, compute, alone_forward, alone_backward, exchange, repeated_dispatch_s(keys, exchange), moe=moe),
        host={"forward": dispatch + wait, "backward": backward_dispatch + wait},
    )


def _repeated_forward_s(
    workload: Workload, compute: LayerCompute, comm: LayerComm, exchange: ExpertComm, stretch: float
) -> Floats:
    """Device time of a second forward with its communication, as far as the backward needs it. [s] ``[k]``

    A compiled graph drops what no gradient needs: the last matmul of the layer and the TP collectives [mindformers-1.8].
    PyTorch's own checkpoints stop, since 2.1, at the last tensor that the backward kept: before that matmul, and before the
    combine [pytorch-checkpoint]. torchtitan's newest repeat an eager layer to its end [torchtitan-2026.08, distributed/
    activation_checkpoint.py:129].

    Parameters
    ----------
    exchange : ``[k]``, seconds
        Dispatch and combine of a forward before compute hides them.
    """
    eager, since, year = workload.software_traits.eager, workload.software_traits.early_stop_year, workload.software.year
    to_the_end = workload.software.newest_layers and not workload.software.torch_compile
    stops = eager and since is not None and (year is None or year >= since) and not to_the_end
    experts, ring = (part.forward_s + stretch * part.behind_forward_s for part in (comm.ep_comm, comm.cp_comm))
    if stops:
        whole = exchange.dispatch_s + exchange.combine_s
        experts = experts * exchange.dispatch_s / np.where(whole > 0, whole, 1.0)
    last = compute.matmuls.last if stops or not eager else 0.0
    again = compute.forward - last + (comm.tp_comm.forward_s if eager else 0.0)
    return again + ring + experts


def _pieces(
    workload: Workload,
    compute: LayerCompute,
    alone_forward: Floats,
    alone_backward: Floats,
    exchange: ExpertComm,
    again_s: Floats,
    *,
    moe: bool,
) -> dict[str, Floats]:
    """Both passes in the pieces that merged pairs interleave. [s] ``[k]``

    The attention's pieces are the rest of a pass after all other pieces.

    Parameters
    ----------
    alone_forward : ``[k]``, seconds
        A forward without its expert exchange and without the wait for dispatch.
    alone_backward : ``[k]``, seconds
        The same for a backward.
    exchange : ``[k]``
    again_s : ``[k]``, seconds
        A dispatch that the backward repeats. Its own exchange waits for it.
    """
    matmuls, shared, permute = compute.matmuls, compute.shared_expert, compute.permute
    experts = matmuls.moe + matmuls.mlp - shared
    shared_back = workload.training.task.matmuls_of_weight * shared
    attention_weights = matmuls.attention - matmuls.frozen_attention
    experts_weights = experts - (matmuls.frozen_block - (2.0 * shared - shared_back))
    dispatch, combine = exchange.dispatch_s, exchange.combine_s
    pieces = {
        "attention": alone_forward - experts - shared - permute,
        "experts": experts + permute,
        "experts_back": experts + permute,
        "attention_back": alone_backward - (2.0 * (experts + shared) - matmuls.frozen_block) - permute - attention_weights,
        "experts_weights": experts_weights,
        "attention_weights": attention_weights,
    }
    if not moe:
        return pieces
    pieces |= {"shared": shared, "dispatch": dispatch, "combine": combine}
    return pieces | {"shared_back": shared_back, "combine_back": combine, "dispatch_back": dispatch + again_s}

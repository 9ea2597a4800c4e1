"""Time of a layer's low-rank adapters: their matmuls, the operators that join them, their collectives, dequantisation."""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import ADD_BYTES, ELEMENT_BYTES, READ_WRITE_BYTES, Device, element_bytes, matmul_s, vector_s
from cost_models.layer.expert_rows import expert_rows, peak_expert_rows
from cost_models.network.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from cost_models.network.tiers import Network
from cost_models.shapes.adapters import AdaptedLinear, adapted_linears, adapter_copies, layer_rank_linears
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

ADAPTER_KERNELS = 4  # A, B, the scale and the sum with the layer's output, in a forward [peft, layer.py]


@dataclass(frozen=True)
class AdapterTimes:
    """Seconds of the adapters of one layer and micro batch, ``[k]``; 0 where nothing is adapted.

    ``attention`` and ``mlp`` are forward matmuls; their gradients take the same each, of inputs and of weights. ``vector_*`` are
    the operators around them.
    """

    attention: Floats
    mlp: Floats
    vector_forward: Floats
    vector_backward: Floats


def _rows(workload: Workload, keys: LayerKeys, linear: AdaptedLinear) -> tuple[Floats, Floats]:
    """Rows of the first and of the second matmul of an adapter, ``[k]``.

    PEFT runs the side that it does not divide on the sequence shard [peft, tp_layer.py]; Megatron Bridge runs both on the whole
    sequence [megatron-bridge, peft/utils.py].
    """
    training = workload.training
    if linear.experts:
        assert workload.model.moe is not None
        rows = expert_rows(keys, workload.model.moe, training)
        return rows, rows
    n, n_l = keys.tokens(training), keys.sharded_tokens(training)
    if not linear.divided:
        return n_l, n_l
    if workload.software_traits.splits_adapters:
        return n, n
    return (n_l, n) if linear.enters else (n, n_l)


def adapter_times(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool) -> AdapterTimes:
    """Time of the adapters of one layer of the given kind. Their matmuls run in 16 bits. [s] ``[k]``

    Notes
    -----
    Forward: A of in x r, B of r x out; the product with alpha / r reads and writes the output, and the sum with the layer's
    output reads two and writes one. Backward: the gradient passes the product, and the gradients of the input are summed.
    """
    attention = mlp = moved = moved_back = np.zeros(len(keys.tp))
    adapters = workload.training.task.adapters
    if adapters is None:
        return AdapterTimes(attention, mlp, moved, moved_back)
    both = workload.software_traits.splits_adapters
    for linear in adapted_linears(workload.model, adapters, moe=moe):
        ranks = (keys.etp if linear.experts else keys.tp).astype(np.float64)
        first, second = _rows(workload, keys, linear)
        shares = ranks if linear.divided else np.ones_like(ranks)
        inner = linear.inner / (1.0 if linear.enters else shares)
        outer = linear.outer / (shares if linear.enters or both else 1.0)
        narrow = adapters.rank / (ranks if both and linear.enters else 1.0)
        groups = adapter_copies(workload, linear, keys)
        rate = device.unquantised_flops_per_s
        time_s = matmul_s(first, narrow, inner, device, groups=groups, flops_per_s=rate)
        time_s = time_s + matmul_s(second, outer, adapters.rank, device, groups=groups, flops_per_s=rate)
        if linear.target in (Target.QKV, Target.PROJ):
            attention = attention + time_s
        else:
            mlp = mlp + time_s
        moved = moved + (READ_WRITE_BYTES + ADD_BYTES) * second * outer
        moved_back = moved_back + READ_WRITE_BYTES * second * outer + ADD_BYTES * first * inner
    return AdapterTimes(attention, mlp, vector_s(moved, device), vector_s(moved_back, device))


def dequantise_s(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool, local: bool) -> Floats:
    """Time to convert a layer's frozen weights to 16 bits for one pass: each is read as stored, and written. [s] ``[k]``

    Both the forward and the gradient of the input need them, and nothing keeps the copy [qlora, section 3].
    """
    task = workload.training.task
    if not task.dequantises:
        return np.zeros(len(keys.tp))
    dense, experts = layer_rank_linears(workload.model, keys, moe=moe, local=local)
    return vector_s((task.stored_bytes + ELEMENT_BYTES) * (dense + experts), device)


def adapter_kernels(workload: Workload, *, moe: bool) -> int:
    """Kernels that the adapters of a layer add to an eager forward; a backward launches twice as many."""
    adapters = workload.training.task.adapters
    return 0 if adapters is None else ADAPTER_KERNELS * len(list(adapted_linears(workload.model, adapters, moe=moe)))


def adapter_comm(workload: Workload, keys: LayerKeys, network: Network, *, moe: bool) -> tuple[Floats, Floats]:
    """Tensor-parallel collectives of one layer's adapters, in a forward and in a backward. [s] ``[k]``

    PEFT sends outputs of A alone: 2 n r bytes for each layer, gathered or reduced [peft, tp_layer.py]. Megatron Bridge gathers
    the outputs of A as well. Beside a layer whose input is divided it also gathers the whole output, 2 n h bytes, and again its
    gradient under sequence parallelism; beside the other, sequence parallelism scatters the gradient of its input, 2 n h
    [megatron-bridge, peft/utils.py]. Routed experts without tensor parallelism need none.
    """
    task, none = workload.training.task, np.zeros(len(keys.tp))
    if task.adapters is None or not (keys.tp > 1).any():
        return none, none
    stride, sp = np.ones_like(keys.tp), keys.sequence_parallel != 0
    n = keys.tokens(workload.training)
    low = element_bytes(workload) * n * task.adapters.rank
    hidden = element_bytes(workload) * n * workload.model.hidden_size
    gather, scatter, reduce = (each(low, keys.tp, stride, network) for each in (all_gather_s, reduce_scatter_s, all_reduce_s))
    forward = backward = none
    for linear in adapted_linears(workload.model, task.adapters, moe=moe):
        if linear.experts or not linear.divided:
            continue
        if workload.software_traits.splits_adapters:
            whole = all_gather_s(hidden, keys.tp, stride, network)
            forward = forward + (gather if linear.enters else reduce + whole)
            back = reduce_scatter_s(hidden, keys.tp, stride, network) if linear.enters else whole
            backward = backward + reduce + np.where(sp, back, 0.0)
        elif linear.enters:
            forward, backward = forward + np.where(sp, gather, 0.0), backward + np.where(sp, scatter + gather, reduce)
        else:
            forward, backward = forward + np.where(sp, scatter, reduce), backward + np.where(sp, gather, 0.0)
    return forward, backward


def adapter_output_bytes(workload: Workload, keys: LayerKeys, *, moe: bool) -> Floats:
    """Bytes of the outputs of A that a layer keeps for the gradients of B, for one micro batch. ``[k]``

    Under PEFT's split and sequence parallelism these are the rank's own rows, gathered again in the backward.
    """
    task, kept = workload.training.task, np.zeros(len(keys.tp))
    if task.adapters is None:
        return kept
    for linear in adapted_linears(workload.model, task.adapters, moe=moe):
        rows = np.minimum(*_rows(workload, keys, linear))
        if linear.experts and workload.model.moe is not None:
            rows = peak_expert_rows(keys, workload.model.moe, workload.training)
        kept = kept + ELEMENT_BYTES * task.adapters.rank * rows
    return kept

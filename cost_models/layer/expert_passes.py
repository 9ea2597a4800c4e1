"""Passes over routed rows that no kernel fuses: clamps before the experts' activation, biases behind their second matmul."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cost_models.layer.compute import ADD_BYTES, ELEMENT_BYTES, FP32_BYTES, READ_WRITE_BYTES, Device, vector_s
from cost_models.layer.expert_rows import expert_rows
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.workload import ModelShape, Workload

# A row and channel of the gate, which comes with one of what it gates. Forward: both are clamped, and joined again. Backward:
# of each the gradient and the input are read and a gradient written, and both are joined [megatron-main, fused_bias_geglu.py].
CLAMP_FORWARD_BYTES = 2 * READ_WRITE_BYTES + 2 * READ_WRITE_BYTES
CLAMP_BACKWARD_BYTES = 2 * ADD_BYTES + 2 * READ_WRITE_BYTES
CLAMPED_BYTES = 2 * ELEMENT_BYTES  # kept by the activation function beside what the first matmul's output keeps
FIRST_BIAS_BACKWARD_BYTES = 2 * ELEMENT_BYTES  # the same: its gradient is a sum; its forward is the matmul's [transformer-engine]
# A row and channel of the hidden size. Forward: the bias times the row's weight in FP32, that and the matmul's output read and
# their sum written in FP32, the experts joined, and cast. Backward: cast to FP32 and from it, the experts joined, and a product
# written, read and summed for the bias, and for the weights [megatron-main, experts.py, _apply_bias].
BIAS_FORWARD_BYTES = FP32_BYTES + (ELEMENT_BYTES + 2 * FP32_BYTES) + 2 * FP32_BYTES + (FP32_BYTES + ELEMENT_BYTES)
BIAS_BACKWARD_BYTES = 2 * (ELEMENT_BYTES + FP32_BYTES) + READ_WRITE_BYTES + 2 * 3 * FP32_BYTES
BIAS_KERNELS = 3  # of an expert and forward, twice that in a backward: a product and a sum; casts, two products, two sums


class ExpertPasses(NamedTuple):
    """Seconds ``[k]``; ``clamps`` are part of the activation function, and computed again with it."""

    clamps_forward: Floats
    clamps_backward: Floats
    biases_forward: Floats
    biases_backward: Floats


def clamps_experts(model: ModelShape) -> bool:
    """Whether what enters the experts' activation is clamped first, by operators of its own."""
    return model.moe is not None and model.gated_linear_unit and model.constants.activation_clamp is not None


def expert_passes(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool) -> ExpertPasses:
    """What the clamps and biases of one layer's routed experts take, beside the fused activation function.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    device : Device
        Rates of one rank under the workload's hardware and software.
    moe : bool
        A MoE layer, else a dense one, which has neither.

    Returns
    -------
    ExpertPasses, ``[k]``, seconds
        Of one layer and micro batch; nothing where a compiler fuses them.
    """
    model, zero = workload.model, np.zeros(len(keys.tp))
    shape = model.moe
    if not moe or shape is None or not workload.software_traits.eager:
        return ExpertPasses(zero, zero, zero, zero)
    rows = expert_rows(keys, shape, workload.training)
    gates, biased = rows * shape.expert_ffn_hidden_size / keys.etp, float(shape.expert_biases)
    clamped, hidden = float(clamps_experts(model)), rows * float(model.hidden_size)
    ways = 2.0 if model.gated_linear_unit else 1.0
    first_bias = biased * ways / 2.0 * FIRST_BIAS_BACKWARD_BYTES * gates
    return ExpertPasses(
        vector_s(clamped * CLAMP_FORWARD_BYTES * gates, device),
        vector_s(clamped * CLAMP_BACKWARD_BYTES * gates, device),
        vector_s(biased * BIAS_FORWARD_BYTES * hidden, device),
        vector_s(biased * BIAS_BACKWARD_BYTES * hidden + first_bias, device),
    )

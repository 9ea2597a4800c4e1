"""Unfused passes over routed rows: clamps before the experts' activation, biases after their second matmul."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cost_models.layer.compute import ADD_BYTES, ELEMENT_BYTES, FP32_BYTES, READ_WRITE_BYTES, Device, vector_s
from cost_models.layer.expert_rows import expert_rows
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.workload import ModelShape, Workload

# Bytes a row and channel of the gate, together with the value that it gates. Forward: both are clamped, then concatenated.
# Backward: for each, gradient and input are read and a gradient is written; both are concatenated
# [megatron-main, fused_bias_geglu.py].
CLAMP_FORWARD_BYTES = 2 * READ_WRITE_BYTES + 2 * READ_WRITE_BYTES
CLAMP_BACKWARD_BYTES = 2 * ADD_BYTES + 2 * READ_WRITE_BYTES
CLAMPED_BYTES = 2 * ELEMENT_BYTES  # bytes that the activation function keeps in addition to the first matmul's output
FIRST_BIAS_BACKWARD_BYTES = 2 * ELEMENT_BYTES  # sums the gradient; the forward is fused in the matmul [transformer-engine]
# Bytes a row and channel of the hidden size. Forward: bias times the row's weight in FP32, sum with the matmul's output in FP32,
# concatenation of the experts, cast. Backward: casts to and from FP32, concatenation, and one product written, read and summed
# each for the bias and for the weights [megatron-main, experts.py, _apply_bias].
BIAS_FORWARD_BYTES = FP32_BYTES + (ELEMENT_BYTES + 2 * FP32_BYTES) + 2 * FP32_BYTES + (FP32_BYTES + ELEMENT_BYTES)
BIAS_BACKWARD_BYTES = 2 * (ELEMENT_BYTES + FP32_BYTES) + READ_WRITE_BYTES + 2 * 3 * FP32_BYTES
BIAS_KERNELS = 3  # an expert in a forward, twice that in a backward: a product and a sum; casts, two products, two sums


class ExpertPasses(NamedTuple):
    """Seconds of unfused expert passes, ``[k]``. Clamps belong to the activation function and are recomputed with it."""

    clamps_forward: Floats
    clamps_backward: Floats
    biases_forward: Floats
    biases_backward: Floats


def clamps_experts(model: ModelShape) -> bool:
    """Whether separate operators clamp the inputs of the experts' activation."""
    return model.moe is not None and model.gated_linear_unit and model.constants.activation_clamp is not None


def expert_passes(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool) -> ExpertPasses:
    """Time of the clamps and biases of one layer's routed experts, in addition to the fused activation. [s] ``[k]``

    It is 0 for dense layers, and if a compiler fuses the passes.
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

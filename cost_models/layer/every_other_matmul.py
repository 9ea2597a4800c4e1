"""A layer under PyTorch's selective checkpoints that keep what fused attention, every other matmul and reduce-scatters make.

A layer's plain matmuls are counted in their order: queries, keys, values and the projection behind attention, then gate, up and
down of a dense MLP or of shared experts. The odd ones are kept. Grouped matmuls of experts and the router's are not counted and
not kept [torchtitan-0.2, activation_checkpoint.py:51; torchtitan-0.2, models/llama3/infra/parallelize.py:36].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.attention_bytes import statistics_bytes
from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.workload import Workload


def keeps_alternate(workload: Workload, keys: LayerKeys, *, moe: bool) -> tuple[dict[str, Floats], Floats]:
    """Bytes that a layer keeps, and those of them that a layer without recompute does not keep. ``[k]``

    The input of the layer, in place of all other residuals. Queries before their norms and positions, values, the output of
    attention and its statistics; gate, and down at its full width. With tensor parallelism also what the reduce-scatters behind
    attention and the MLP or the experts make. Compiled layers keep neither down nor the last reduce-scatter, which no gradient
    needs.

    Returns
    -------
    tuple
        Bytes by class of ``LayerActivations.saved``, and the sum that a backward holds beside the layer's own tensors.
    """
    model, n = workload.model, keys.tokens(workload.training)
    t, width = keys.tp.astype(np.float64), float(ELEMENT_BYTES)
    hidden = width * model.hidden_size * n
    shard = width * model.hidden_size * keys.sharded_tokens(workload.training)
    scattered = np.where(keys.tp > 1, shard, 0.0)
    eager = float(not workload.software.torch_compile)
    queries, values = (
        width * model.kv_channels * heads * n / t for heads in (model.num_attention_heads, key_value_heads(model, keys))
    )
    shape = model.moe if moe else None
    channels = model.ffn_hidden_size if shape is None else shape.shared_expert_ffn_hidden_size
    down = eager * float(channels > 0) * (hidden + scattered * (shape is None))
    routed = eager * scattered * float(shape is not None)
    kept = {
        "residual": shard + scattered,
        "attention": 2.0 * queries + values + statistics_bytes(workload, keys) * n / t,
        "shared_experts" if moe else "mlp": width * channels * n / t + down,
        "routed_experts": routed,
    }
    return kept, queries + scattered + down + routed


def repeats_projection(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the projection behind attention runs again: not in a compiled layer that kept its reduce-scatter. ``[k]``"""
    again: NDArray[np.bool_] = (keys.tp == 1) | (not workload.software.torch_compile)
    return again

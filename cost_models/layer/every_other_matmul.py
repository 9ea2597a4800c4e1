"""A layer under PyTorch's selective checkpoints that keep what fused attention, every other matmul and reduce-scatters make.

A layer's plain matmuls are counted in their order: queries, keys, values and the projection behind attention, then gate, up and
down of a dense MLP or of shared experts. The odd ones are kept. Grouped matmuls of experts and the router's are not counted and
not kept [torchtitan-0.2, activation_checkpoint.py:51; torchtitan-0.2, models/llama3/infra/parallelize.py:36]. Latent attention
has queries, latents, keys and values from them, and the projection; latents of queries come first where it has them. Its layers
also keep what experts exchange [torchtitan-0.2, models/deepseek_v3/infra/parallelize.py:38].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.attention_bytes import statistics_bytes
from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.layer.expert_rows import peak_expert_rows, routed_copies
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.workload import ModelShape, Workload


def keeps_alternate(workload: Workload, keys: LayerKeys, *, moe: bool) -> tuple[dict[str, Floats], Floats]:
    """Bytes that a layer keeps, and those of them that a layer without recompute does not keep. ``[k]``

    The input of the layer, in place of all other residuals. Queries before their norms and positions, values, the output of
    attention and its statistics; gate, and down at its full width. Of latent attention queries, keys and values; or the latents
    of both and the projection, then up in place of gate, and no down. With tensor parallelism also what the reduce-scatters
    behind attention and the MLP or the experts make. Compiled layers keep neither down nor the last reduce-scatter, which no
    gradient needs.

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
    attention, more = _attention(workload, keys)
    shape = model.moe if moe else None
    channels = model.ffn_hidden_size if shape is None else shape.shared_expert_ffn_hidden_size
    down = eager * float(channels > 0 and not compresses_queries(model)) * (hidden + scattered * (shape is None))
    routed = eager * scattered * float(shape is not None)
    if shape is not None and model.mla is not None:
        exchanged = peak_expert_rows(keys, shape, workload.training) + routed_copies(keys, shape, workload.training)
        routed = routed + np.where(keys.ep > 1, width * model.hidden_size * exchanged, 0.0)
    kept = {
        "residual": shard + scattered,
        "attention": attention + statistics_bytes(workload, keys) * n / t,
        "shared_experts" if moe else "mlp": width * channels * n / t + down,
        "routed_experts": routed,
    }
    return kept, more + scattered + down + routed


def compresses_queries(model: ModelShape) -> bool:
    """Whether latent attention has latents of queries, so that a layer's matmuls before its MLP are five."""
    return model.mla is not None and model.mla.q_lora_rank > 0


def _attention(workload: Workload, keys: LayerKeys) -> tuple[Floats, Floats]:
    """Bytes of attention's matmuls and output that are kept, and those that a layer without recompute does not keep. ``[k]``

    Where queries, keys and values are one matmul, both are its output, and the former also that of attention. Else the latter
    are queries before their norms and positions, keys without theirs beside the values, or the projection's output.
    """
    model, bytes_ = workload.model, ELEMENT_BYTES * keys.tokens(workload.training) / keys.tp
    heads, mla = model.num_attention_heads, model.mla
    if mla is None:
        queries, groups = (bytes_ * model.kv_channels * each for each in (heads, key_value_heads(model, keys)))
        if workload.software.newest_layers:
            joined = queries + 2.0 * groups
            return joined + queries, joined
        return 2.0 * queries + groups, queries
    output = bytes_ * heads * mla.v_head_dim
    if mla.q_lora_rank:
        latents = mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim
        return bytes_ * (latents + model.hidden_size) + output, bytes_ * model.hidden_size
    queries, keys_alone = bytes_ * heads * mla.qk_head_dim, bytes_ * heads * mla.qk_nope_head_dim
    return queries + keys_alone + 2.0 * output, queries + keys_alone


def repeats_projection(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the projection behind attention runs again: not in a compiled layer that kept its reduce-scatter. ``[k]``"""
    again: NDArray[np.bool_] = (keys.tp == 1) | (not workload.software.torch_compile)
    return again

"""Bytes that one layer keeps from its forward for its backward, by tensor class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.expert_rows import expert_rows, routed_copies
from cost_models.layer_keys import Floats, LayerKeys
from cost_models.strategy import Feature, RecomputeModule
from cost_models.workload import Workload

SOFTMAX_STATISTICS_BYTES = {"ascend": 64, "gpu": 4}  # a token and head; Ascend keeps max and sum as FP32 (B, H, S, 8) [cann]
SCORE_BYTES_SAVED = 5  # softmax output, dropout mask, dropped scores, without fused attention [korthikanti2022, section 4.1]
ZERO_MEMORY_KEPT_FRACTION = 0.3  # of the expert internals under moe-zero-memory level0 [mindspeed, moe-zero-memory.md]


@dataclass(frozen=True)
class LayerActivations:
    """Columns ``[k]`` in bytes for one micro batch.

    ``saved`` by tensor class, ``saved_bytes`` their sum, ``input_bytes`` what a fully recomputed layer keeps,
    ``unreduced_bytes`` what the layer holds while it is computed again (nothing recomputed inside),
    ``transient_bytes`` buffers that live only while the layer runs.
    """

    saved: dict[str, Floats]
    saved_bytes: Floats
    input_bytes: Floats
    unreduced_bytes: Floats
    transient_bytes: Floats


def attention_bytes_per_token(workload: Workload, keys: LayerKeys) -> tuple[Floats, Floats]:
    """Attention tensors a token of the context shard, as kept and as left by recomputing the MLA up-projections. [B]

    GQA: 2 d (H + 2 Hk) + 2 d H + statistics, all / t, and 2 d (H + Hk) / t more with Ascend's fused rotary kernel.
    MLA: 4 (ql + kl) + 4 H (dn + dr) + 4 H dv + statistics, / t, and the shared rope key 2 dr, which every rank holds.
    Source: module structure of [megatron-0.12]; [cann] for the statistics.
    """
    model = workload.model
    t = keys.tp.astype(np.float64)
    heads = model.num_attention_heads
    family = "ascend" if workload.cluster.profile.family == "ascend" else "gpu"
    statistics = heads * SOFTMAX_STATISTICS_BYTES[family]
    if model.mla is None:
        groups = np.maximum(model.num_query_groups, t * keys.ulysses_degree)
        # Ascend's fused rotary kernel keeps its inputs; others work on what is kept anyway.
        keeps = family == "ascend" and not model.learned_positions
        rotary = np.where(keys.has(Feature.FUSED_ROPE) & keeps, 2.0 * (heads + groups), 0.0)
        kept = model.kv_channels * (2.0 * (heads + 2 * groups) + 2.0 * heads + rotary) / t + statistics / t
        return kept, kept
    mla = model.mla
    latent = 4.0 * (mla.q_lora_rank + mla.kv_lora_rank)
    expanded = 4.0 * heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim) + 2.0 * heads * mla.v_head_dim
    rest = (latent + 2.0 * heads * mla.v_head_dim + statistics) / t + 2.0 * mla.qk_rope_head_dim
    return rest + expanded / t, rest


def layer_activations(workload: Workload, keys: LayerKeys, *, moe: bool) -> LayerActivations:
    """What one layer of the given kind keeps, per key. Source: [korthikanti2022, table 2] for the dense reference."""
    model, training = workload.model, workload.training
    h = float(model.hidden_size)
    n, n_l, t = keys.tokens(training), keys.sharded_tokens(training), keys.tp.astype(np.float64)
    norms = 2.0 if model.sandwich_norm else 1.0
    residual, norm_output = 4.0 * h * n_l * norms, 4.0 * h * n_l * norms
    attention_full, attention_reduced = attention_bytes_per_token(workload, keys)
    flash = keys.has(Feature.FLASH_ATTENTION)
    scores = np.where(flash, 0.0, SCORE_BYTES_SAVED * n * training.seq_length * model.num_attention_heads / t)
    per_width = 6.0 if model.gated_linear_unit else 4.0
    act_width = 2.0
    shape = model.moe if moe else None
    if shape is None:
        mlp_act = act_width * model.ffn_hidden_size * n / t
        mlp = per_width * model.ffn_hidden_size * n / t
        routed = routed_act = shared = shared_act = router = copies = np.zeros_like(n)
    else:
        rows = expert_rows(keys, shape, training)
        width = shape.expert_ffn_hidden_size / keys.etp
        routed, routed_act = rows * (2.0 * h + per_width * width), rows * act_width * width
        shared = per_width * shape.shared_expert_ffn_hidden_size * n / t
        shared_act = act_width * shape.shared_expert_ffn_hidden_size * n / t
        router = 4.0 * h * n_l + 8.0 * shape.num_experts * n_l
        copies = 2.0 * h * routed_copies(keys, shape, training) + 4.0 * h * rows
        mlp = mlp_act = np.zeros_like(n)

    drop = keys.recomputes
    kept_attention = np.where(drop(RecomputeModule.MLA_UP_PROJ), attention_reduced, attention_full) * n
    swapped = keys.has(Feature.SWAP_ATTENTION)
    zero_memory = np.where(keys.has(Feature.MOE_ZERO_MEMORY), ZERO_MEMORY_KEPT_FRACTION, 1.0)
    no_moe = drop(RecomputeModule.MOE)
    act_again = drop(RecomputeModule.MLP_ACT)
    saved = {
        "residual": residual,
        "norm_output": np.where(drop(RecomputeModule.LAYERNORM), 0.0, norm_output),
        "attention": np.where(swapped, 0.0, kept_attention),
        "attention_scores": np.where(drop(RecomputeModule.CORE_ATTN), 0.0, scores),
        "mlp": np.where(drop(RecomputeModule.MLP), 0.0, mlp - np.where(act_again, mlp_act, 0.0)),
        "routed_experts": np.where(no_moe, 0.0, zero_memory * (routed - np.where(act_again, routed_act, 0.0))),
        "shared_experts": np.where(no_moe, 0.0, zero_memory * (shared - np.where(act_again, shared_act, 0.0))),
        "router": np.where(no_moe, 0.0, router),
    }
    unreduced = residual + norm_output + attention_full * n + scores + mlp + routed + shared + router
    gathered = np.where(keys.sequence_parallel != 0, 2.0 * h * n, 0.0)
    recomputed = np.maximum(
        np.where(drop(RecomputeModule.MLP), mlp, 0.0),
        np.where(no_moe, routed + shared + router, 0.0),
    )
    mlp_gradient = (per_width - 2.0) * np.where(mlp > 0, mlp / per_width, routed_act / act_width)
    gradient = np.maximum(mlp_gradient, attention_full * n / 2.0)
    return LayerActivations(
        saved=saved,
        saved_bytes=sum(saved.values(), np.zeros_like(n)),
        input_bytes=2.0 * h * n_l,
        unreduced_bytes=unreduced,
        transient_bytes=gathered + copies + recomputed + gradient + np.where(swapped, 2.0 * kept_attention, 0.0),
    )


def activation_swap_s(workload: Workload, keys: LayerKeys) -> Floats:
    """Time to move one layer's attention tensors to the host in the forward, or back in the backward. ``[k]``

    Two layers' worth stay on the device while they are moved [mindspeed, swap_attention.md].
    """
    kept, _ = attention_bytes_per_token(workload, keys)
    moved = kept * keys.tokens(workload.training)
    return np.where(keys.has(Feature.SWAP_ATTENTION), moved / workload.cluster.profile.host_link_bytes_per_s, 0.0)

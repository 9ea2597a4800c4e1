"""Bytes that one layer keeps from its forward for its backward, by tensor class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.layer.expert_rows import peak_expert_rows, routed_copies
from cost_models.layer.quantisation import QUANTISED_PRECISIONS
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher, Feature, RecomputeModule
from cost_models.shapes.workload import MoeShape, Workload

SCORE_BYTES_SAVED = 5  # softmax output, dropout mask, dropped scores, without fused attention [korthikanti2022, section 4.1]
ROTARY_TABLE_BYTES = 2  # sine or cosine of a token and channel [megatron-0.12, rope_utils.py]
SCORE_GRADIENT_BYTES = 4  # gradients of the dropped scores and of the scores, while the backward passes through
ALIBI_BYTES = 2  # every layer scales the position bias of its heads into a tensor of its own [mindspeed-attention]
ZERO_MEMORY_KEPT_FRACTION = 0.3  # of the expert internals under moe-zero-memory level0 [mindspeed, moe-zero-memory.md]


@dataclass(frozen=True)
class LayerActivations:
    """Columns ``[k]`` in bytes for one micro batch.

    ``saved`` by tensor class, ``saved_bytes`` their sum, ``input_bytes`` what a fully recomputed layer keeps,
    ``unreduced_bytes`` what the layer holds while it is computed again (nothing recomputed inside),
    ``transient_bytes`` buffers that live only while the layer runs. ``waiting`` by the same classes, and their sum
    ``waiting_bytes``, is what a weight gradient that runs apart needs of the layer once its input gradient has ended: what enters
    the linear layers, computed again or not, and the gradients of what leaves them [zero-bubble-code].
    """

    saved: dict[str, Floats]
    saved_bytes: Floats
    waiting: dict[str, Floats]
    waiting_bytes: Floats
    input_bytes: Floats
    unreduced_bytes: Floats
    transient_bytes: Floats


def attention_bytes_per_token(workload: Workload, keys: LayerKeys) -> tuple[Floats, Floats]:
    """Attention tensors a token of the context shard, as kept and as left by recomputing the MLA up-projections. [B]

    GQA: 2 d (H + 2 Hk) + 2 d H + statistics, all / t. Ascend's fused rotary kernel keeps its inputs, views of the whole
    projection, while fused attention keeps a contiguous copy of the values: 2 d (H + 2 Hk) / t more, and sines and cosines for
    queries and keys. Layers older than Megatron-Core's repeat keys and values for every head [mindspeed-attention].
    MLA: 4 (ql + kl) + 4 H (dn + dr) + 4 H dv + statistics, / t, and the shared rope key 2 dr, which every rank holds.
    Ulysses: attention keeps its output, and so does the projection after the exchange.
    Source: module structure of [megatron-0.12]; [cann] for the statistics.
    """
    model = workload.model
    t = keys.tp.astype(np.float64)
    heads = model.num_attention_heads
    statistics = heads * workload.device_traits.softmax_statistics_bytes
    outputs = np.where(keys.ulysses_degree > 1, 2.0, 1.0)
    if model.mla is None:
        repeats = workload.software.legacy_layers
        groups = np.maximum(heads if repeats else model.num_query_groups, t * keys.ulysses_degree)
        # Other rotary kernels work on what is kept anyway.
        keeps = workload.device_traits.rotary_keeps_inputs and not (model.learned_positions or model.alibi)
        # The tables serve all samples of a micro batch; queries and keys keep theirs apart.
        rotary = 2.0 * (heads + 2 * groups) / t + 4 * ROTARY_TABLE_BYTES / keys.micro_batch_size
        rotary = np.where(keys.has(Feature.FUSED_ROPE) & keeps, rotary, 0.0)
        kept = model.kv_channels * ((2.0 * (heads + 2 * groups) + 2.0 * heads * outputs) / t + rotary) + statistics / t
        return kept, kept
    mla = model.mla
    latent = 4.0 * (mla.q_lora_rank + mla.kv_lora_rank)
    expanded = 4.0 * heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim) + 2.0 * heads * mla.v_head_dim
    rest = (latent + 2.0 * heads * mla.v_head_dim * outputs + statistics) / t + 2.0 * mla.qk_rope_head_dim
    return rest + expanded / t, rest


def linear_input_bytes(workload: Workload) -> int:
    """Bytes of an element that a linear layer keeps of its input.

    Transformer Engine keeps it in 8 bits where it multiplies in 8 bits or fewer [transformer-engine, linear.py].
    """
    kept = workload.device_traits.keeps_quantised_inputs and workload.software_traits.uses_transformer_engine
    return 1 if kept and workload.training.precision in QUANTISED_PRECISIONS else ELEMENT_BYTES


def expert_copies(workload: Workload, keys: LayerKeys, shape: MoeShape) -> Floats:
    """Token copies that live while a MoE layer exchanges them: sent, received and sorted. ``[k]``

    All-gather: what all ranks of the exchange gather takes the place of what is sent; overlapped, the backward gathers it
    again beside its gradient. An overlapped all-to-all holds the buffers of two exchanges at once [mindspeed-moe-overlap],
    merged passes those of a forward and a backward [mindspeed-fb-overlap].
    """
    h, training = float(workload.model.hidden_size), workload.training
    sent = 2.0 * h * routed_copies(keys, shape, training)
    received = 4.0 * h * peak_expert_rows(keys, shape, training)
    travels = keys.ep * keys.etp > 1
    gathers = travels & (keys.dispatcher == int(Dispatcher.ALLGATHER))
    gathered = 2.0 * h * keys.sharded_tokens(training) * keys.ep * keys.etp
    gathered = gathered * np.where(keys.has(Feature.MOE_ALLGATHER_OVERLAP_COMM), 2.0, 1.0)
    exchanged = (sent + received) * np.where(travels & keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM), 2.0, 1.0)
    copies: Floats = np.where(gathers, gathered + received, exchanged)
    return copies * np.where(travels & keys.has(Feature.MOE_COMM_OVERLAP), 2.0, 1.0)


def layer_activations(workload: Workload, keys: LayerKeys, *, moe: bool) -> LayerActivations:
    """What one layer of the given kind keeps, per key. Source: [korthikanti2022, table 2] for the dense reference."""
    model, training = workload.model, workload.training
    h = float(model.hidden_size)
    n, n_l, t = keys.tokens(training), keys.sharded_tokens(training), keys.tp.astype(np.float64)
    norms = 2.0 if model.sandwich_norm else 1.0
    linear = linear_input_bytes(workload)
    # Norms feed linear layers, but for those of a sandwich that follow one.
    residual, norm_output = 4.0 * h * n_l * norms, (2.0 * linear + 4.0 * (norms - 1.0)) * h * n_l
    attention_full, attention_reduced = attention_bytes_per_token(workload, keys)
    flash = keys.has(Feature.FLASH_ATTENTION)
    pairs = n * training.seq_length * model.num_attention_heads / t
    bias = ALIBI_BYTES * pairs if model.alibi else 0.0
    scores = np.where(flash, bias, SCORE_BYTES_SAVED * pairs)
    act_width = float(linear)
    per_width = (4.0 if model.gated_linear_unit else 2.0) + act_width
    shape = model.moe if moe else None
    if shape is None:
        mlp_act = act_width * model.ffn_hidden_size * n / t
        mlp = per_width * model.ffn_hidden_size * n / t
        routed = routed_act = routed_waiting = shared = shared_act = router = copies = np.zeros_like(n)
    else:
        rows = peak_expert_rows(keys, shape, training)
        width = shape.expert_ffn_hidden_size / keys.etp
        # The backward of the overlapped exchange starts from the experts' outputs [mindspeed-moe-overlap].
        exchanges = keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM) & (keys.dispatcher != int(Dispatcher.ALLGATHER))
        exchanges = exchanges & (keys.ep * keys.etp > 1)
        routed, routed_act = rows * (linear * h + per_width * width), rows * act_width * width
        shared = per_width * shape.shared_expert_ffn_hidden_size * n / t
        shared_act = act_width * shape.shared_expert_ffn_hidden_size * n / t
        router = 4.0 * h * n_l + 8.0 * shape.num_experts * n_l
        routed_waiting = routed + 2.0 * h * rows
        routed = routed + np.where(exchanges, 2.0 * h * rows, 0.0)
        copies = expert_copies(workload, keys, shape)
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
    # Gradients of q, k and v are as large as these; those of a block's output are whole on every tensor-parallel rank.
    none, block_gradient = np.zeros_like(n), 2.0 * h * n
    waiting = {
        "residual": none,
        "norm_output": 2.0 * linear * h * n_l,
        "attention": attention_full * n + block_gradient,
        "attention_scores": none,
        "mlp": none if shape is not None else mlp + block_gradient,
        "routed_experts": routed_waiting,
        "shared_experts": np.where(shared > 0, shared + block_gradient, 0.0),
        "router": router,
    }
    unreduced = residual + norm_output + attention_full * n + scores + mlp + routed + shared + router
    gathered = np.where(keys.sequence_parallel != 0, 2.0 * h * n, 0.0)
    core = np.where(drop(RecomputeModule.CORE_ATTN), scores, 0.0) + np.where(
        flash | (not workload.software_traits.eager), 0.0, SCORE_GRADIENT_BYTES * pairs
    )
    recomputed = np.maximum(
        np.where(drop(RecomputeModule.MLP), mlp, 0.0),
        np.where(no_moe, routed + shared + router, 0.0),
    )
    mlp_gradient = (per_width - act_width) * np.where(mlp > 0, mlp / per_width, routed_act / act_width)
    gradient = np.maximum(mlp_gradient, attention_full * n / 2.0 + core)
    return LayerActivations(
        saved=saved,
        saved_bytes=sum(saved.values(), np.zeros_like(n)),
        waiting=waiting,
        waiting_bytes=sum(waiting.values(), none),
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

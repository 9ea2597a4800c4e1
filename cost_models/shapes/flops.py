"""Model FLOPs of a training step: the numerator of MFU. One multiply-add counts as two."""

from __future__ import annotations

from collections import Counter

from cost_models.shapes.adapters import active_adapter_parameters
from cost_models.shapes.parameters import layer_parameters, linear_attention_weights
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence

# Key by value matmuls of a token in each head of a recurrence: reading the state for the correction, writing correction and
# key, reading the state with the query [megatron-main, training.py]. Lightning attention corrects nothing [minimax-01].
DELTA_RULE_PRODUCTS, LIGHTNING_PRODUCTS = 4, 2
STATE_SPACE_FLOPS = 7  # a token and element of the state [megatron-0.19, training.py]
BACKWARD_OVER_FORWARD = 2.0  # each matmul has a gradient of its input and one of its weight [narayanan2021, eq. 3]
MFU_CONVENTION = Sentence(
    "model FLOPs (causal attention, MTP and output head counted; recompute, padding and router not) "
    "over dense matmul peak of the training precision, or of TF32 where linear layers multiply in it"
)


def attended_length(model: ModelShape, seq_length: float, *, local: bool = False) -> float:
    """Equivalent sequence length of full attention for a layer with a window. [tokens]

    A causal window of w tokens on s leaves s w - w^2 / 2 of s^2 / 2 pairs of query and key. A sequence of w (2 - w / s) tokens
    has as many pairs for each token. Without a window, or with one as long as ``seq_length``, it is ``seq_length``.
    """
    if not local or model.local_attention is None or model.local_attention.is_linear:
        return seq_length
    return _limited_length(model.local_attention.window, seq_length)


def _limited_length(num_keys: int, seq_length: float) -> float:
    """Equivalent sequence length of full attention if each query sees at most ``num_keys`` tokens before it. [tokens]"""
    seen = min(float(num_keys), seq_length)
    return seen * (2.0 - seen / seq_length)


def chosen_length(model: ModelShape, seq_length: float) -> float:
    """Equivalent sequence length of full attention for the tokens that an indexer chooses. [tokens]

    A query has as many as a window of ``top_k`` tokens would leave it. Without sparse attention it is ``seq_length``.
    """
    sparse = model.sparse_attention
    return seq_length if sparse is None else _limited_length(sparse.top_k, seq_length)


def indexer_score_flops_per_token(model: ModelShape, seq_length: float) -> float:
    """Forward FLOPs of an indexer's scores for one token of one layer under a causal mask: Hi di s. [flops]

    It is 0 without sparse attention [deepseek-v3.2, eq. 1].
    """
    sparse = model.sparse_attention
    return 0.0 if sparse is None else float(seq_length) * sparse.index_width


def attention_score_flops_per_token(model: ModelShape, seq_length: float, *, local: bool = False) -> float:
    """Forward FLOPs of QK^T and PV for one token of one layer under a causal mask. [flops]

    GQA: 2 s H d. MLA (expanded form): s H (d_nope + d_rope + d_v) [megatron-0.12, training.py]. A causal mask leaves half of
    the scores: the mean token attends to half of ``seq_length``, or of ``attended_length``, or of ``chosen_length``. A recurrence
    has, at any length, 8 H dk dv of its value heads under the delta rule, 4 H dk dv in lightning attention and 7 H dk dv in a
    state space.
    """
    heads, linear = model.num_attention_heads, model.linear_attention(local=local)
    if linear is not None and linear.is_state_space:
        return float(STATE_SPACE_FLOPS * linear.state_elements)
    if linear is not None:
        return 2.0 * (DELTA_RULE_PRODUCTS if linear.is_delta_rule else LIGHTNING_PRODUCTS) * linear.state_elements
    length = attended_length(model, seq_length, local=local)
    if model.mla is None:
        return 2.0 * length * heads * model.kv_channels
    mla = model.mla
    return chosen_length(model, float(length)) * heads * (mla.qk_head_dim + mla.v_head_dim)


def layer_flops_per_token(model: ModelShape, seq_length: float, *, moe: bool, local: bool = False) -> float:
    """Forward model FLOPs of one layer for one token: 2 FLOPs a used parameter plus causal attention. [flops]

    A token in a MoE layer uses ``top_k`` routed experts and all shared ones. The backward is twice the forward. Norms and router
    are left out, as in Megatron's throughput figure [megatron-0.12, training.py].
    """
    parts, recurrence = layer_parameters(model, moe=moe, local=local), model.linear_attention(local=local)
    attention = parts.attention_sharded if recurrence is None else linear_attention_weights(model, recurrence)
    linear = attention + parts.mlp + parts.shared_experts
    if model.mla is not None and recurrence is None:
        linear += parts.attention_replicated
    if moe and model.moe is not None:
        linear += parts.chosen_experts(model.moe)
    scores = attention_score_flops_per_token(model, seq_length, local=local) + indexer_score_flops_per_token(model, seq_length)
    return 2.0 * linear + scores


def model_flops_per_token(model: ModelShape, seq_length: float) -> float:
    """Forward and backward (3x forward) model FLOPs a token, with output head and MTP, without recompute. [flops]"""
    return (1.0 + BACKWARD_OVER_FORWARD) * forward_flops_per_token(model, seq_length)


def forward_flops_per_token(model: ModelShape, seq_length: float) -> float:
    """Forward model FLOPs a token, with output head and MTP. [flops]"""
    layers = model.kinds_of_layers()
    each = {kind: layer_flops_per_token(model.of_kind(kind), seq_length, moe=kind.moe, local=kind.local) for kind in set(layers)}
    forward = sum(number * each[kind] for kind, number in Counter(layers).items())
    head = 2.0 * model.hidden_size * model.vocab_size
    projection = 2.0 * 2.0 * model.hidden_size**2  # matmul from 2h to h
    mtp = each[layers[-1]] + projection + head
    return forward + head + model.mtp_num_layers * mtp


def model_flops_per_step(workload: Workload) -> float:
    """Model FLOPs of one optimizer step over the global batch, for the whole cluster. [flops]

    Packed samples attend to the mean of their squared lengths over the sequence length. A frozen weight has no gradient, so its
    matmul counts twice and not three times; adapters count as other weights. A reference model adds its forward.
    """
    training, model = workload.training, workload.model
    length, task = training.attended_length, training.task
    each = forward_flops_per_token(model, length)
    flops = (1.0 + BACKWARD_OVER_FORWARD) * each
    if task.adapters is not None:
        kinds = model.kinds_of_layers()
        kinds += model.mtp_num_layers * kinds[-1:]
        scores = sum(attention_score_flops_per_token(model.of_kind(kind), length, local=kind.local) for kind in kinds)
        low_rank = sum(2.0 * active_adapter_parameters(model.of_kind(kind), task.adapters, moe=kind.moe) for kind in kinds)
        flops += (1.0 + BACKWARD_OVER_FORWARD) * low_rank - (BACKWARD_OVER_FORWARD - task.matmuls_of_weight) * (each - scores)
    if task.runs_reference:
        flops += each
    return float(training.step_tokens) * flops

"""Model FLOPs of a training step: the numerator of MFU. One multiply-add counts as two."""

from __future__ import annotations

from cost_models.shapes.parameters import layer_parameters
from cost_models.shapes.workload import ModelShape, Workload

BACKWARD_OVER_FORWARD = 2.0  # a gradient of the input and one of the weight for each matmul [narayanan2021, eq. 3]
MFU_CONVENTION = (
    "model FLOPs (causal attention, MTP and output head counted; recompute, padding and router not) "
    "over dense matmul peak of the training precision"
)


def attention_score_flops_per_token(model: ModelShape, seq_length: float) -> float:
    """Forward FLOPs of QK^T and PV for one token of one layer under a causal mask. [flops]

    GQA: 2 s H d. MLA (expanded form): s H (d_nope + d_rope + d_v) [megatron-0.12, training.py].

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    seq_length : float
        Tokens that a token may attend to, itself and its past: the sequence length [tokens].

    Returns
    -------
    float, FLOPs
        A causal mask leaves half of the scores: the mean token attends to half of ``seq_length``.
    """
    heads = model.num_attention_heads
    if model.mla is None:
        return 2.0 * seq_length * heads * model.kv_channels
    mla = model.mla
    return float(seq_length) * heads * (mla.qk_head_dim + mla.v_head_dim)


def layer_flops_per_token(model: ModelShape, seq_length: float, *, moe: bool) -> float:
    """Forward model FLOPs of one layer for one token: 2 FLOPs a used parameter plus causal attention. [flops]

    Norms and router are left out, as in Megatron's throughput figure [megatron-0.12, training.py].

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    seq_length : float
        Tokens that a token may attend to, itself and its past: the sequence length [tokens].
    moe : bool
        A MoE layer, whose token passes ``top_k`` routed experts and all shared ones.

    Returns
    -------
    float, FLOPs
        A forward; the backward is twice that.
    """
    parts = layer_parameters(model, moe=moe)
    linear = parts.attention_sharded + parts.mlp + parts.shared_experts
    if model.mla is not None:
        linear += parts.attention_replicated
    if moe and model.moe is not None:
        linear += parts.chosen_experts(model.moe)
    return 2.0 * linear + attention_score_flops_per_token(model, seq_length)


def model_flops_per_token(model: ModelShape, seq_length: float) -> float:
    """Forward and backward (3x forward) model FLOPs a token, output head and MTP included. [flops]

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    seq_length : float
        Tokens that a token may attend to, itself and its past: the sequence length [tokens].

    Returns
    -------
    float, FLOPs
        Three forwards; recompute is not model work and left out.
    """
    kinds = model.moe_layers()
    forward = sum(layer_flops_per_token(model, seq_length, moe=moe) for moe in kinds)
    head = 2.0 * model.hidden_size * model.vocab_size
    projection = 2.0 * 2.0 * model.hidden_size**2  # from 2h to h
    mtp = layer_flops_per_token(model, seq_length, moe=kinds[-1]) + projection + head
    return (1.0 + BACKWARD_OVER_FORWARD) * (forward + head + model.mtp_num_layers * mtp)


def model_flops_per_step(workload: Workload) -> float:
    """Model FLOPs of one optimizer step over the global batch. [flops]

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.

    Returns
    -------
    float, FLOPs
        Of the whole cluster. Packed samples attend to the mean of their squared lengths over the sequence length.
    """
    training = workload.training
    tokens = float(training.seq_length) * training.global_batch_size
    return tokens * model_flops_per_token(workload.model, training.attended_length)

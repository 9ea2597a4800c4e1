"""Linear recurrences in place of attention, computed in chunks: FLOPs, time, traffic and kept bytes."""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import ADD_BYTES, ELEMENT_BYTES, FP32_BYTES, READ_WRITE_BYTES, Device, fused_attention_s
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.parameters import convolved_width, projected_steps
from cost_models.shapes.workload import LocalAttention

DELTA_RULE_CHUNK, LIGHTNING_CHUNK = 64, 256  # tokens [flash-linear-attention, chunk.py; minimax-01, block_size]
DELTA_RULE_STEPS = 2  # scalars a token and head in addition to keys and values: decay and step
# A forward writes a state of each chunk in FP32, reads it, writes it in 16 bits behind the chunks before, and reads that
# [mamba-ssm, ssd_combined.py].
STATE_PASS_BYTES = 2 * FP32_BYTES + 2 * ELEMENT_BYTES
STATE_GRADIENT_BYTES = 2 * FP32_BYTES  # a backward holds the states and their gradients [mamba-ssm, ssd_combined.py]


def chunk_tokens(linear: LocalAttention) -> int:
    """Tokens of a chunk, which is computed at once like attention under a causal mask."""
    if linear.is_state_space:
        return linear.chunk_size
    return DELTA_RULE_CHUNK if linear.is_delta_rule else LIGHTNING_CHUNK


def linear_attention_flops_per_token(linear: LocalAttention, ranks: Floats) -> Floats:
    """Forward FLOPs that the chunked algorithm executes for one token, of all heads: more than the recurrence needs. [flops]

    In chunks of C tokens, each a full C x C block, a value head multiplies queries with keys (C dk), the result with values
    (C dv), queries with the state (dk dv) and keys with values into the state (dk dv). The delta rule also multiplies keys with
    keys (C dk), its inverse with keys and with values (C dk, C dv), and keys with the state (dk dv)
    [flash-linear-attention, chunk.py, wy_fast.py; minimax-01]. Inverting a C x C triangle is left out. A state space multiplies
    queries with keys once for all heads of a group [mamba-2], and a repeated group on each of its ranks
    (``repeated_group_width``).

    Parameters
    ----------
    ranks : ``[k]``
        Ranks that divide the heads, of tensor and of context parallelism.
    """
    keys, values, chunk = linear.key_head_dim, linear.value_head_dim, chunk_tokens(linear)
    if linear.is_state_space:
        groups = linear.query_key_width + repeated_group_width(linear, ranks) / 2.0
        return 2.0 * (groups * chunk + linear.num_value_heads * (chunk * values + 2 * keys * values))
    inside, state = (3 * keys + 2 * values, 3) if linear.is_delta_rule else (keys + values, 2)
    return np.full_like(ranks, 2.0 * linear.num_value_heads * (chunk * inside + state * keys * values))


def linear_attention_s(linear: LocalAttention, tokens: Floats, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of the recurrence itself on one rank. [s] ``[k]``

    It is priced as fused attention whose kernels see one chunk: R C / (C + s0), with R the rate of long sequences. This is
    assumed; single kernels on GPUs reach from 0.6 to 2 times that [flashinfer-gdn].
    """
    flops = linear_attention_flops_per_token(linear, head_ranks(linear, keys)) * tokens / keys.tp
    return fused_attention_s(flops, float(chunk_tokens(linear)), linear.key_head_dim, device)


def linear_attention_moved_bytes(linear: LocalAttention, ranks: Floats) -> Floats:
    """HBM traffic a token of the memory-bound operators of a forward, before division by tp. [B] ``[k]``

    Queries, keys and values pass the convolution, or an activation function, and are split from their gate. The output is
    normalised and multiplied with the gate. A state space moves a state of each chunk, and repeats groups before the convolution.

    Parameters
    ----------
    ranks : ``[k]``
        ``head_ranks`` of the keys.
    """
    passed = np.full_like(ranks, convolved_width(linear))
    states = 0.0
    if linear.is_state_space:
        passed = passed + repeated_group_width(linear, ranks)
        states = STATE_PASS_BYTES * linear.state_elements / linear.chunk_size
    return READ_WRITE_BYTES * (2.0 * passed + linear.value_width) + ADD_BYTES * linear.value_width + states


def recurrence_cp(linear: LocalAttention, keys: LayerKeys) -> Floats:
    """Context-parallel ranks that divide the heads of a recurrence. ``[k]``

    A state space and a gated delta net exchange over all of them, whatever the layers of attention do [megatron-0.19,
    mamba_context_parallel.py, gated_delta_net/common.py].
    """
    ranks = keys.cp if linear.is_state_space or linear.is_delta_rule else np.maximum(keys.ulysses_degree, 1)
    return ranks.astype(np.float64)


def head_ranks(linear: LocalAttention, keys: LayerKeys) -> Floats:
    """Ranks that divide the heads of a recurrence, of tensor and of context parallelism. ``[k]``"""
    return keys.tp * recurrence_cp(linear, keys)


def repeated_group_width(linear: LocalAttention, ranks: Floats) -> Floats:
    """Channels of queries and keys that a state space repeats where its groups are fewer than the ranks of its heads. ``[k]``

    [megatron-0.19, mamba_context_parallel.py].
    """
    return 2.0 * np.maximum(ranks - linear.num_key_heads, 0.0) * linear.key_head_dim


def linear_attention_kept_bytes(linear: LocalAttention, ranks: Floats) -> Floats:
    """Bytes that a token keeps for the backward, before division by tp. [B] ``[k]``

    Queries, keys and values are kept before their convolution or activation function. After it, the values are kept, and queries
    and keys of every value head. The gate, the output, the normalised output and the gated output are kept too. The delta rule
    also keeps normalised queries and keys before they are repeated, the gate as a view of the whole projection and as a copy,
    decay and step in FP32, and a row of the chunk's inverse for each head
    [megatron-0.19, gated_delta_net/common.py; flash-linear-attention, chunk.py]. A state space keeps its whole projection, the
    output before and behind the gate and behind the norm, and 1 / rms of each group; all else its backward computes again
    [megatron-0.19, mamba_mixer.py; mamba-ssm, ssd_combined.py].

    Parameters
    ----------
    ranks : ``[k]``
        ``head_ranks`` of the keys.
    """
    if linear.is_state_space:
        projection = convolved_width(linear) + linear.value_width + projected_steps(linear) + repeated_group_width(linear, ranks)
        return ELEMENT_BYTES * (projection + 3.0 * linear.value_width) + FP32_BYTES * linear.num_key_heads
    before = 2.0 * linear.query_key_width + linear.value_width
    behind = 2.0 * linear.num_value_heads * linear.key_head_dim + linear.value_width
    kept = ELEMENT_BYTES * (before + behind + 4.0 * linear.value_width)
    if not linear.is_delta_rule:
        return np.full_like(ranks, kept)
    kept += ELEMENT_BYTES * (2.0 * linear.query_key_width + linear.value_width)
    kept += linear.num_value_heads * (DELTA_RULE_STEPS * FP32_BYTES + ELEMENT_BYTES * DELTA_RULE_CHUNK)
    return np.full_like(ranks, kept)


def linear_attention_states_bytes(linear: LocalAttention) -> float:
    """Bytes that a token adds to the chunk states during a backward, before division by tp. [B]

    The backward rebuilds the states and their gradients: twice a key by value block of each head and chunk, 2 bytes an element
    [flash-linear-attention, chunk.py]; 4 in a state space.
    """
    each = STATE_GRADIENT_BYTES if linear.is_state_space else 2.0 * ELEMENT_BYTES
    return each * linear.state_elements / chunk_tokens(linear)


def linear_attention_exchanged(linear: LocalAttention, ranks: Floats) -> Floats | float:
    """Elements a token that context-parallel ranks exchange to divide the heads: inputs and output, before division by tp.

    A state space exchanges its gate and step as well, and repeats groups that are fewer than the ranks
    [megatron-0.19, mamba_context_parallel.py].

    Parameters
    ----------
    ranks : ``[k]``
        ``head_ranks`` of the keys.
    """
    if linear.is_state_space:
        groups = 2.0 * linear.query_key_width + repeated_group_width(linear, ranks)
        return groups + 3.0 * linear.value_width + projected_steps(linear)
    steps = DELTA_RULE_STEPS * linear.num_value_heads if linear.is_delta_rule else 0
    return 2.0 * linear.query_key_width + 2.0 * linear.value_width + steps

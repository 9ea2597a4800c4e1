"""A recurrence in place of attention, computed in chunks: FLOPs, time, traffic, and what it keeps for its backward."""

from __future__ import annotations

from cost_models.layer.compute import ADD_BYTES, ELEMENT_BYTES, FP32_BYTES, READ_WRITE_BYTES, Device, fused_attention_s
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.workload import LocalAttention

DELTA_RULE_CHUNK, LIGHTNING_CHUNK = 64, 256  # tokens [flash-linear-attention, chunk.py; minimax-01, block_size]
DELTA_RULE_STEPS = 2  # numbers a token and head beside keys and values: its decay and its step


def chunk_tokens(linear: LocalAttention) -> int:
    """Tokens that are computed together, as attention under a causal mask.

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    int, tokens
    """
    return DELTA_RULE_CHUNK if linear.is_delta_rule else LIGHTNING_CHUNK


def linear_attention_flops_per_token(linear: LocalAttention) -> float:
    """Forward FLOPs that the chunked algorithm executes for one token: more than the recurrence needs. [flops]

    In chunks of C tokens, each a full C x C block, a value head multiplies queries with keys (C dk), the result with values
    (C dv), queries with the state (dk dv) and keys with values into the state (dk dv). The delta rule also multiplies keys with
    keys (C dk), its inverse with keys and with values (C dk, C dv), and keys with the state (dk dv)
    [flash-linear-attention, chunk.py, wy_fast.py; minimax-01].

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    float, FLOPs
        Of all heads; inverting a C x C triangle is left out.
    """
    keys, values, chunk = linear.key_head_dim, linear.value_head_dim, chunk_tokens(linear)
    inside, state = (3 * keys + 2 * values, 3) if linear.is_delta_rule else (keys + values, 2)
    return 2.0 * linear.num_value_heads * (chunk * inside + state * keys * values)


def linear_attention_s(linear: LocalAttention, tokens: Floats, tp: Floats, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of the recurrence itself on one rank. [s]

    As fused attention whose kernels see one chunk at a time: R C / (C + s0), R the rate of its long sequences. Assumed; single
    kernels on GPUs reach from 0.6 to 2 times that [flashinfer-gdn].

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.
    tokens : Floats, ``[k]``
        Of a micro batch on a rank.
    tp : Floats, ``[k]``
        Tensor-parallel ranks, which divide its heads.
    device : Device
        Rates of one rank under the workload's hardware and software.

    Returns
    -------
    tuple of Floats, ``[k]``, seconds
        Forward and backward.
    """
    flops = linear_attention_flops_per_token(linear) * tokens / tp
    return fused_attention_s(flops, float(chunk_tokens(linear)), linear.key_head_dim, device)


def linear_attention_moved_bytes(linear: LocalAttention) -> float:
    """HBM traffic a token of the memory-bound operators of a forward. [B]

    Queries, keys and values pass the convolution, or an activation function, and are split with their gate; the output is
    normalised and multiplied with the gate.

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    float, bytes
        Before division by tp.
    """
    passed = 2.0 * linear.query_key_width + linear.value_width
    return READ_WRITE_BYTES * (2.0 * passed + linear.value_width) + ADD_BYTES * linear.value_width


def linear_attention_kept_bytes(linear: LocalAttention) -> float:
    """What a token keeps for the backward. [B]

    Queries, keys and values before their convolution or activation function; behind it values, and queries and keys of every
    value head; the gate, the output, the normalised output and the gated output. Under the delta rule also queries and keys
    normalised before they are repeated, the gate as a view of the whole projection beside its copy, decay and step in FP32, and
    a row of the chunk's inverse for each head [megatron-0.19, gated_delta_net/common.py; flash-linear-attention, chunk.py].

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    float, bytes
        Before division by tp.
    """
    before = 2.0 * linear.query_key_width + linear.value_width
    behind = 2.0 * linear.num_value_heads * linear.key_head_dim + linear.value_width
    kept = ELEMENT_BYTES * (before + behind + 4.0 * linear.value_width)
    if not linear.is_delta_rule:
        return kept
    kept += ELEMENT_BYTES * (2.0 * linear.query_key_width + linear.value_width)
    return kept + linear.num_value_heads * (DELTA_RULE_STEPS * FP32_BYTES + ELEMENT_BYTES * DELTA_RULE_CHUNK)


def linear_attention_states_bytes(linear: LocalAttention) -> float:
    """What a token adds to the states of the chunks, rebuilt with their gradients while a backward passes. [B]

    A key by value block of each head and chunk, 2 bytes an element, twice [flash-linear-attention, chunk.py].

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    float, bytes
        Before division by tp.
    """
    state = linear.num_value_heads * linear.key_head_dim * linear.value_head_dim
    return 2.0 * ELEMENT_BYTES * state / chunk_tokens(linear)


def linear_attention_exchanged(linear: LocalAttention) -> float:
    """Elements a token that change hands between context-parallel ranks that divide the heads: inputs and output.

    Parameters
    ----------
    linear : LocalAttention
        A recurrence.

    Returns
    -------
    float, elements
        Before division by tp.
    """
    steps = DELTA_RULE_STEPS * linear.num_value_heads if linear.is_delta_rule else 0
    return 2.0 * linear.query_key_width + 2.0 * linear.value_width + steps

"""Attention to the tokens that an indexer chooses, and the indexer with its loss: time, traffic, kept bytes and exchanges.

The order of work is MindSpeed-LLM's [mindspeed-llm, multi_latent_attention.py, dsa_indexer.py]. Every tensor-parallel rank scores
all tokens with all heads of the indexer. Ulysses gathers its queries, keys and inputs, so that every rank of it does so too. The
indexer's inputs carry no gradient back. Its loss compares its scores with attention's own over the chosen tokens, so that a
backward needs those scores of all heads. No measured run has any of this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import ATTENTION_BACKWARD_FLOPS, ELEMENT_BYTES, FP32_BYTES, Device, fused_attention_s, matmul_s
from cost_models.shapes.flops import chosen_length, indexer_score_flops_per_token
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MlaShape, ModelShape, SparseAttention, Workload

# Matmuls of a score and channel of the indexer, each 2 FLOPs: the score again, and the gradients of its query and key.
LOSS_PRODUCTS = 3
FP32_RATE_FRACTION = 0.25  # assumed rate of a matmul in FP32 over that in 16 bits
# HBM traffic of an index score that is written out, in FP32: it is written, clipped, weighted and summed over the heads; the
# backward passes the same operators and feeds two matmuls.
INDEX_FORWARD_BYTES, INDEX_BACKWARD_BYTES = 6 * FP32_BYTES, 8 * FP32_BYTES
# HBM traffic of a score of attention that the loss computes again: written in 16 bits, softmax in FP32, summed over the heads.
TARGET_BYTES = 2 * ELEMENT_BYTES + 2 * FP32_BYTES
CHOICE_COPIES = 3  # FP32 values of a chosen token that the loss keeps: softmax of its score, what the logarithm reads, target


def parts_of(model: ModelShape) -> tuple[SparseAttention, MlaShape]:
    """The indexer and the latent attention that it chooses for; a model without either has no sparse attention."""
    assert model.sparse_attention is not None
    assert model.mla is not None
    return model.sparse_attention, model.mla


def attends_to_latents(keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the fused kernel of sparse attention runs, over latents that keys and values share. ``[k]``"""
    return keys.has(Feature.SPARSE_ATTENTION_KERNEL) & keys.has(Feature.FLASH_ATTENTION)


def trains_in_kernel(keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the indexer's loss is a kernel too, which needs the statistics of the sparse kernel. ``[k]``"""
    return attends_to_latents(keys) & keys.has(Feature.FUSED_INDEXER)


def scored_tokens(workload: Workload, keys: LayerKeys) -> Floats:
    """Queries that a rank's indexer scores in one micro batch: all that Ulysses gathers. ``[k]``"""
    return keys.tokens(workload.training) * keys.ulysses_degree


def chosen_attention_s(workload: Workload, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of the fused kernel over the chosen tokens. [s] ``[k]``

    Queries have the width of the latents and the rotary channels, values that of the latents. Each pair of a query and a chosen
    token costs 2 (kl + dr) + 2 kl FLOPs a head. It is priced at the rate of dense fused attention that sees as many tokens;
    what gathering them costs beyond that is not known.
    """
    _, mla = parts_of(workload.model)
    length = chosen_length(workload.model, workload.training.attended_length)
    width = mla.kv_lora_rank + mla.qk_rope_head_dim
    heads = workload.model.num_attention_heads / keys.tp
    flops = keys.tokens(workload.training) * heads * length * (width + mla.kv_lora_rank)
    return fused_attention_s(flops, length, width, device)


def indexer_s(workload: Workload, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of the indexer with its loss. [s] ``[k]``

    Projections have a gradient of their weights alone. Fused kernels score the pairs of a causal mask, and their loss the chosen
    ones: attention's scores of all heads, 2 (kl + dr) H FLOPs, and 6 Hi di of the indexer. It counts as backward, though it runs
    before. Without these kernels all pairs are scored in FP32 and written out, and so are attention's scores for the loss.
    Choosing the largest scores is left out.
    """
    projections = _projections_s(workload, keys, device)
    forward, backward = _fused_index_s(workload, keys, device)
    if not keys.has(Feature.FUSED_INDEXER).all():
        written = _written_index_s(workload, keys, device)
        fused = keys.has(Feature.FUSED_INDEXER)
        forward, backward = np.where(fused, forward, written[0]), np.where(fused, backward, written[1])
    if not trains_in_kernel(keys).all():
        backward = backward + np.where(trains_in_kernel(keys), 0.0, _written_target_s(workload, keys, device))
    return projections + forward, projections + backward


def _projections_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    """Forward time of the projections to queries, keys and weights of heads; the last are of gathered tokens. [s] ``[k]``"""
    sparse, mla = parts_of(workload.model)
    n, h, rate = keys.tokens(workload.training), workload.model.hidden_size, device.unquantised_flops_per_s
    queries = matmul_s(n, sparse.index_width, mla.q_lora_rank, device, flops_per_s=rate)
    weights = matmul_s(scored_tokens(workload, keys), sparse.num_index_heads, h, device, flops_per_s=rate)
    return queries + matmul_s(n, sparse.index_head_dim, h, device, flops_per_s=rate) + weights


def _fused_index_s(workload: Workload, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    model, (sparse, mla) = workload.model, parts_of(workload.model)
    length, n = workload.training.attended_length, scored_tokens(workload, keys)
    scored, _ = fused_attention_s(n * indexer_score_flops_per_token(model, length), length, sparse.index_head_dim, device)
    chosen = chosen_length(model, length)
    target = np.where(trains_in_kernel(keys), model.num_attention_heads * (mla.kv_lora_rank + mla.qk_rope_head_dim), 0.0)
    flops = n * chosen * (target + LOSS_PRODUCTS * sparse.index_width)
    return scored, fused_attention_s(flops / ATTENTION_BACKWARD_FLOPS, chosen, sparse.index_head_dim, device)[1]


def _written_index_s(workload: Workload, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    sparse, _ = parts_of(workload.model)
    scores = scored_tokens(workload, keys) * workload.training.seq_length * sparse.num_index_heads
    product = 2.0 * scores * sparse.index_head_dim / (device.half_flops_per_s * FP32_RATE_FRACTION)
    forward = product + INDEX_FORWARD_BYTES * scores / device.raw_hbm_bytes_per_s
    backward = 2.0 * product + INDEX_BACKWARD_BYTES * scores / device.raw_hbm_bytes_per_s
    return forward * device.time_factor, backward * device.time_factor


def _written_target_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    """Time to compute attention's scores again for the loss, on the rank's heads, and to write them out. [s] ``[k]``"""
    _, mla = parts_of(workload.model)
    width = np.where(attends_to_latents(keys), mla.kv_lora_rank + mla.qk_rope_head_dim, mla.qk_head_dim)
    scores = scored_tokens(workload, keys) * workload.training.seq_length * workload.model.num_attention_heads / keys.tp
    product = 2.0 * width * scores / device.unquantised_flops_per_s
    return (product + TARGET_BYTES * scores / device.raw_hbm_bytes_per_s) * device.time_factor


def latent_bytes_per_token(workload: Workload, keys: LayerKeys, *, statistics: Floats, outputs: Floats) -> tuple[Floats, Floats]:
    """Bytes that attention over latents keeps for each token of the context shard: as kept, and without up-projections. [B]

    Each head keeps its query as projected, multiplied with the weight of keys, and with rotary positions, and its output as
    latents and as values. Normed latents and rotary keys are whole on every rank; other latents are divided under sequence
    parallelism [mindspeed-llm, multi_latent_attention.py].

    Parameters
    ----------
    statistics, outputs : ``[k]``
        Bytes of softmax statistics of all heads, and copies of the output that an exchange makes.
    """
    _, mla = parts_of(workload.model)
    t, heads = keys.tp.astype(np.float64), workload.model.num_attention_heads
    ranks = np.where(keys.sequence_parallel != 0, t, 1.0)
    latents = ELEMENT_BYTES * (2 * mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim) / ranks
    whole = ELEMENT_BYTES * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    queries = ELEMENT_BYTES * heads * (mla.qk_nope_head_dim + mla.kv_lora_rank + mla.qk_rope_head_dim) / t
    output = (ELEMENT_BYTES * heads * (mla.kv_lora_rank * outputs + mla.v_head_dim) + statistics) / t
    return latents + whole + queries + output, latents + whole + output


def indexer_bytes_per_token(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes that the indexer and its loss keep for each token of the context shard; tensor parallelism divides none. [B] ``[k]``

    Under sequence parallelism it has gathered its inputs itself; otherwise they are those of attention. Its norm keeps keys in
    FP32. The loss as a kernel keeps gradients of queries, keys and weights, and the chosen tokens as 32-bit numbers. Without it
    it keeps queries and keys in FP32, a clipped score of each head and token, and values of the chosen tokens; without the
    sparse kernel attention also keeps a mask [mindspeed-llm, dsa_indexer.py].
    """
    model, (sparse, mla) = workload.model, parts_of(workload.model)
    seq_length = workload.training.seq_length
    chosen, width = min(sparse.top_k, seq_length), sparse.index_width + sparse.index_head_dim
    u, gathers = keys.ulysses_degree.astype(np.float64), (keys.sequence_parallel != 0) & (keys.tp > 1)
    inputs = ELEMENT_BYTES * np.where(gathers, model.hidden_size + mla.q_lora_rank, 0)
    inputs = inputs + ELEMENT_BYTES * np.where(u > 1, u * model.hidden_size, 0.0)
    gradients = ELEMENT_BYTES * (width + sparse.num_index_heads) + FP32_BYTES * chosen
    values = 2.0 * FP32_BYTES * chosen + CHOICE_COPIES * FP32_BYTES * chosen  # of the choice: 64-bit numbers
    written = FP32_BYTES * (width + sparse.num_index_heads * seq_length)
    scores = np.where(keys.has(Feature.FUSED_INDEXER), ELEMENT_BYTES * width, written)
    mask = np.where(attends_to_latents(keys), 0.0, float(seq_length))
    own = FP32_BYTES * sparse.index_head_dim + u * np.where(trains_in_kernel(keys), gradients, values + scores + mask)
    return np.asarray(inputs + own, dtype=np.float64)


def indexer_transient_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes of the indexer's buffers while the layer runs. ``[k]``

    The loss as a kernel reads the queries of all heads, which tensor parallelism gathers. Otherwise they are two more copies of
    the index scores, or attention's scores in 16 bits and their softmax, one after the other.
    """
    model, (sparse, mla) = workload.model, parts_of(workload.model)
    n, t = scored_tokens(workload, keys), keys.tp.astype(np.float64)
    queries = model.num_attention_heads * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    gathered = ELEMENT_BYTES * n * (np.where(t > 1, queries, 0.0) + sparse.index_width)
    pairs = n * workload.training.seq_length
    index = np.where(keys.has(Feature.FUSED_INDEXER), 0.0, 2.0 * FP32_BYTES * sparse.num_index_heads * pairs)
    target = (ELEMENT_BYTES + FP32_BYTES) * model.num_attention_heads / t * pairs
    return np.where(trains_in_kernel(keys), gathered, np.maximum(index, target))


def indexer_gathers(workload: Workload, keys: LayerKeys) -> tuple[Floats, Floats]:
    """Elements that tensor parallelism gathers for the indexer in a forward, and for its loss once. ``[k]`` each, whole tensors

    Sequence parallelism gathers hidden state and compressed queries again. The loss as a kernel gathers the queries of all heads
    [mindspeed-llm, multi_latent_attention.py].
    """
    model, (_, mla) = workload.model, parts_of(workload.model)
    n = keys.tokens(workload.training)
    inputs = np.where(keys.sequence_parallel != 0, n * (model.hidden_size + mla.q_lora_rank), 0.0)
    queries = model.num_attention_heads * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    return inputs, np.where(trains_in_kernel(keys), scored_tokens(workload, keys) * queries, 0.0)


def ulysses_elements(workload: Workload, keys: LayerKeys) -> tuple[Floats, Floats]:
    """Elements a token that context-parallel ranks exchange, and that they gather. ``[k]`` each

    Queries and outputs of the rank's heads are exchanged, and keys and values if every head has its own. Latents, the indexer's
    queries, keys and inputs, and the queries for its loss are gathered [mindspeed-llm, dsa_indexer.py].
    """
    model, (sparse, mla) = workload.model, parts_of(workload.model)
    heads, latents = model.num_attention_heads / keys.tp, attends_to_latents(keys)
    width = np.where(latents, mla.kv_lora_rank + mla.qk_rope_head_dim, mla.qk_head_dim)
    out = np.where(latents, mla.kv_lora_rank, mla.v_head_dim)
    exchanged = heads * (width + out + np.where(latents, 0, mla.qk_head_dim + mla.v_head_dim))
    indexed = sparse.index_width + sparse.index_head_dim + model.hidden_size
    return exchanged, indexed + heads * width + np.where(latents, width, 0)

"""Bytes that attention keeps of a token for its backward: projections, norms, copies, output and statistics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import ELEMENT_BYTES, element_factor
from cost_models.layer.linear_attention import head_ranks, linear_attention_kept_bytes
from cost_models.layer.linear_inputs import linear_input_bytes, projection_copy_bytes
from cost_models.layer.sparse_attention import attends_to_latents, indexer_bytes_per_token, latent_bytes_per_token
from cost_models.layer.unfused_bytes import NORM_STATISTIC_BYTES, norm_input_bytes
from cost_models.shapes.effective_switches import rotates
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import MlaShape, Workload

ROTARY_TABLES = 4  # sines and cosines, for queries and for keys
ANGLE_BYTES = 4  # sine and cosine of a position and channel of latent attention [megatron-0.12, yarn_rotary_pos_embedding.py]
ROTARY_TABLE_BYTES = 2  # sine or cosine of a token and channel [megatron-0.12, rope_utils.py]


def attention_bytes_per_token(workload: Workload, keys: LayerKeys, *, local: bool = False) -> tuple[Floats, Floats]:
    """Bytes of attention tensors for each token of the context shard: as kept, and without the MLA up-projections. [B]

    GQA: 2 d (H + 2 Hk) + 2 d H + statistics, all / t, with the inputs of the norms of queries and keys. Only fused attention has
    statistics. Ascend keeps sines and cosines for queries and keys, and the whole projection, 2 d (H + 2 Hk) / t, where one of
    its views lives on (``keeps_projection``); values that are a view are not kept twice (``views_values``). Megatron-Core keeps
    these tables as well where no kernel fuses the embedding [megatron-0.12, rope_utils.py]. Layers older than Megatron-Core's
    repeat keys and values for every head [mindspeed-attention].
    MLA: 4 (ql + kl) + 4 H (dn + dr) + 4 H dv + statistics, / t, and the shared rope key 2 dr, which every rank holds. Without
    sequence parallelism every rank also holds the whole latents. Recomputing the up-projections starts from the latents before
    their norms [megatron-0.12, gpt_layer_specs.py; mindspeed-llm, multi_latent_attention.py]. In Megatron-Core each layer has a
    table of its angles, 4 dr a position, and the rope key lives on inside the keys alone; with the up-projections recomputed it
    stays, gathered and as it was [megatron-0.12, multi_latent_attention.py]. In MindSpeed one projection makes latents, rope
    key and, if they have no rank of their own, queries, and it stays as a whole. There each layer has tables for queries and
    keys, and the copy of the values survives the recompute. Padded heads (``fused_head_dims``) are kept padded, the output also
    without padding. Frozen up-projections keep no input.
    In 8 bits the projection may keep a copy of the output (``projection_copy_bytes``).
    Ulysses: attention keeps its output, and the projection keeps it again after the exchange. An output gate keeps itself and
    the gated output, 4 d H / t more. For a recurrence see ``linear_attention_kept_bytes``, for sparse attention
    ``latent_bytes_per_token`` and ``indexer_bytes_per_token``.
    Source: module structure of [megatron-0.12]; [cann] for the statistics.

    Returns
    -------
    tuple of Floats, ``[k]``, bytes a token
        As kept, and as kept where the MLA up-projections are recomputed. Both are equal without latent attention.
    """
    model = workload.model
    t = keys.tp.astype(np.float64)
    heads = model.num_attention_heads
    statistics = statistics_bytes(workload, keys)
    outputs = 1.0 + output_copy_bytes(workload, keys) / ELEMENT_BYTES
    linear = model.linear_attention(local=local)
    if linear is not None:
        # The output of a state space is exchanged before its norm, which keeps one copy in any case.
        copied = projection_copy_bytes(workload) if linear.is_state_space else ELEMENT_BYTES * (outputs - 1.0)
        kept = (linear_attention_kept_bytes(linear, head_ranks(linear, keys)) + copied * linear.value_width) / t
        return kept, kept
    if model.mla is None:
        gated = 2.0 if model.attention_output_gate else 0.0
        groups = kept_groups(workload, keys)
        values = np.where(views_values(workload, keys), 0.0, groups)
        # The tables serve all samples of a micro batch; queries and keys keep theirs apart.
        device, traits = workload.device_traits, workload.software_traits
        tables = ROTARY_TABLES * ROTARY_TABLE_BYTES / keys.micro_batch_size
        apart = tables * (traits.eager and traits.own_kernels)
        rotary = np.where(keys.has(Feature.FUSED_ROPE), tables * device.rotary_keeps_inputs, apart) * rotates(model)
        rotary = rotary + np.where(keeps_projection(workload, keys), ELEMENT_BYTES * (heads + 2 * groups) / t, 0.0)
        kept = ELEMENT_BYTES * (heads + groups + values) + ELEMENT_BYTES * heads * (outputs + gated)
        kept = model.kv_channels * (kept / t + rotary) + statistics / t + head_norm_bytes(workload, keys)
        return kept, kept
    kept, reduced = _mla_bytes(workload, keys, model.mla, statistics, outputs)
    if model.sparse_attention is None:
        return kept, reduced
    over_latents = latent_bytes_per_token(workload, keys, statistics=statistics, outputs=outputs)
    indexer, latents = indexer_bytes_per_token(workload, keys), attends_to_latents(keys)
    return np.where(latents, over_latents[0], kept) + indexer, np.where(latents, over_latents[1], reduced) + indexer


def _mla_bytes(workload: Workload, keys: LayerKeys, mla: MlaShape, statistics: Floats, outputs: Floats) -> tuple[Floats, Floats]:
    """``attention_bytes_per_token`` of latent attention whose heads have keys and values of their own. [B] ``[k]``

    Parameters
    ----------
    statistics, outputs : ``[k]``
        Bytes of softmax statistics of all heads, and copies of the output that an exchange makes.
    """
    heads, t, task = workload.model.num_attention_heads, keys.tp.astype(np.float64), workload.training.task
    # Before a norm, and again behind it.
    latent = ELEMENT_BYTES * (mla.q_lora_rank + mla.kv_lora_rank) / latent_ranks(workload, keys)
    width, value_width = fused_head_dims(mla, workload)
    padded_output = value_width if value_width > mla.v_head_dim else 0
    expanded = ELEMENT_BYTES * heads * (2.0 * width + value_width)
    rest = (ELEMENT_BYTES * heads * (mla.v_head_dim * outputs + padded_output) + statistics) / t + latent
    rope, angles = float(ELEMENT_BYTES * mla.qk_rope_head_dim), ANGLE_BYTES * mla.qk_rope_head_dim / keys.micro_batch_size
    behind = latent * (not task.is_frozen)  # up-projections have no adapters
    if workload.software_traits.own_angles:
        angles = angles / element_factor(workload)
        return rest + angles + expanded / t + behind, rest + angles + rope + rope / latent_ranks(workload, keys)
    if workload.software_traits.rows_of_heads:
        joined = rope if mla.q_lora_rank else rope + ELEMENT_BYTES * heads * mla.qk_head_dim
        rest = rest + joined / latent_ranks(workload, keys)
        tables = ROTARY_TABLES * ROTARY_TABLE_BYTES * mla.qk_rope_head_dim / keys.micro_batch_size
        copied = 0.0 if padded_output else ELEMENT_BYTES * heads * mla.v_head_dim / t
        return rest + expanded / t + behind + tables, rest + copied
    rest = rest + rope
    viewed = ELEMENT_BYTES * heads * mla.qk_nope_head_dim * workload.software_traits.views_latent_values
    return rest + (expanded + viewed) / t + behind, rest


def output_copy_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes that the projection keeps of each element of attention's output, beside the output that attention keeps. ``[k]``

    Ulysses exchanges the output, and attention of gathered keys copies it from the two pieces that it keeps [transformer-engine,
    context_parallel.py, up to 2.14; mindspeed, kvallgather_context_parallel.py].
    """
    beside, pieces = projection_copy_bytes(workload), keys.gathers_keys & (not workload.software_traits.attends_by_blocks)
    exchanged = ((keys.ulysses_degree > 1) | pieces) & workload.training.task.trains(Target.PROJ)
    again = linear_input_bytes(workload) if beside else ELEMENT_BYTES
    return np.where(exchanged, float(again), beside)


def fused_head_dims(mla: MlaShape, workload: Workload) -> tuple[int, int]:
    """Head dims of queries and keys, and of values, in fused attention. Padding is included.

    MindSpeed pads values with zeros to the width of queries, or in another layout all three to a multiple of
    ``padded-base-length``, unless ``mla-fa-without-pad`` is set [mindspeed-llm, multi_latent_attention.py].
    """
    multiple = workload.software.latent_padding
    if multiple == 0:
        return mla.qk_head_dim, mla.v_head_dim
    padded = -(-max(mla.qk_head_dim, mla.v_head_dim) // multiple) * multiple
    return padded, padded


def _one_head_of_keys(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether a rank has one head of keys, in a stack whose attention takes rows of all heads. ``[k]``"""
    traits = workload.software_traits
    found: NDArray[np.bool_] = (key_value_heads(workload.model, keys) == keys.tp) & (traits.rows_of_heads and traits.eager)
    return found


def views_values(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the values that fused attention keeps are a view of the projection. ``[k]``

    An exchange of Ulysses copies them, and so does their repetition for every head.
    """
    found: NDArray[np.bool_] = _one_head_of_keys(workload, keys) & (keys.ulysses_degree <= 1)
    return found & keys.has(Feature.FLASH_ATTENTION) & (not workload.software.legacy_layers)


def keeps_projection(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the whole projection of queries, keys and values stays, as one of its views is kept. ``[k]``

    These are inputs of the fused rotary kernel (``SoftwareTraits.rotary_tables_year``), values that are a view, and the input of
    the norm of keys.
    """
    traits, device = workload.software_traits, workload.device_traits
    inputs = device.rotary_keeps_inputs and rotates(workload.model) and not workload.software.has_since(traits.rotary_tables_year)
    found: NDArray[np.bool_] = (keys.has(Feature.FUSED_ROPE) & inputs) | views_values(workload, keys)
    return found | _norms_views(workload, keys)


def _norms_views(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the norm of keys keeps its input as a view of the projection. ``[k]``"""
    traits = workload.software_traits
    found: NDArray[np.bool_] = keys.has(Feature.FUSED_NORM) & (
        workload.model.qk_layernorm and traits.rows_of_heads and traits.eager
    )
    return found


def swapped_bytes_per_token(workload: Workload, keys: LayerKeys, *, local: bool = False) -> Floats:
    """Bytes of attention tensors that ``swap_attention`` moves to the host for each token of the context shard. [B] ``[k]``

    MindSpeed moves tensors that fill their storage and have a gradient: rotated queries and keys, values and inputs of norms
    unless they are views, the output, and normed latents. A projection of which views are kept stays, and so do statistics and
    tables [mindspeed, prefetch.py]. A compiled graph moves all that recompute leaves.
    """
    model, t = workload.model, keys.tp.astype(np.float64)
    if not workload.software_traits.eager:
        kept, reduced = attention_bytes_per_token(workload, keys, local=local)
        return np.where(keys.recomputes(RecomputeModule.MLA_UP_PROJ), reduced, kept)
    linear, heads = model.linear_attention(local=local), model.num_attention_heads
    if linear is not None:
        return ELEMENT_BYTES * linear.value_width / t
    if model.mla is None:
        groups = key_value_heads(model, keys)
        copied = np.where(views_values(workload, keys), 0.0, groups) + (heads + groups) * rotates(model)
        normed = np.where(_norms_views(workload, keys) & ~_one_head_of_keys(workload, keys), heads, 0.0)
        return ELEMENT_BYTES * model.kv_channels * (heads + copied + normed) / t
    mla = model.mla
    latents = (mla.q_lora_rank + mla.kv_lora_rank) / latent_ranks(workload, keys)
    again = keys.recomputes(RecomputeModule.MLA_UP_PROJ)
    expanded = np.where(again, 0.0, 2.0 * heads * mla.qk_head_dim / t + latents)
    moved = ELEMENT_BYTES * (expanded + heads * mla.v_head_dim / t)
    if model.sparse_attention is None:
        return moved
    queries = np.where(again, 0.0, mla.kv_lora_rank + mla.qk_rope_head_dim)
    return np.where(attends_to_latents(keys), ELEMENT_BYTES * heads * (mla.kv_lora_rank + queries) / t, moved)


def statistics_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes a token that fused attention keeps of the sums of its scores, for the heads of all ranks. ``[k]``"""
    kept = workload.model.num_attention_heads * workload.device_traits.softmax_statistics_bytes
    return np.where(keys.has(Feature.FLASH_ATTENTION), float(kept), 0.0)


def kept_groups(workload: Workload, keys: LayerKeys) -> Floats:
    """Heads of keys and values that attention keeps, of a whole tensor-parallel group. ``[k]``

    Eager matmuls of scores keep them repeated for every head of queries, as all layers older than Megatron-Core's do
    [megatron-0.12, dot_product_attention.py; transformers-main, modeling_llama.py; mindspeed-attention]. Recompute of the core
    repeats them again. Ulysses did so in releases before ``SoftwareTraits.grouped_exchange_year``.
    """
    model, software = workload.model, workload.software
    core = ~keys.has(Feature.FLASH_ATTENTION) & ~keys.recomputes(RecomputeModule.CORE_ATTN)
    traits = workload.software_traits
    exchanged = (keys.ulysses_degree > 1) & (not software.has_since(traits.grouped_exchange_year))
    repeats = (software.legacy_layers | core | exchanged) & traits.eager
    return np.where(repeats, np.maximum(model.num_attention_heads, keys.tp), key_value_heads(model, keys))


def latent_ranks(workload: Workload, keys: LayerKeys) -> Floats:
    """Ranks that divide the latents of latent attention: the tensor-parallel ones under sequence parallelism, else none. ``[k]``

    [megatron-0.12, multi_latent_attention.py]. Of gathered inputs every rank makes all latents.
    """
    divides = (keys.sequence_parallel != 0) & (not workload.software_traits.gathers_apart)
    return np.where(divides, keys.tp, 1).astype(np.float64)


def head_norm_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes a token that the norms of queries and keys keep: a copy of their inputs, and 1 / rms of each head. ``[k]``

    Heads that several ranks share are normalised on each. Where a norm reads the projection itself (``_norms_views``), its input
    is no copy: keys always, queries if the rank has one head of keys. The sum is 0 in a model without these norms, or with latent
    attention, whose norms are those of the latents [transformer-engine, rmsnorm.py].
    """
    model = workload.model
    if not model.qk_layernorm or model.mla is not None:
        return np.zeros(len(keys.tp))
    normed = (model.num_attention_heads + np.maximum(model.num_query_groups, keys.tp)) / keys.tp
    statistic = NORM_STATISTIC_BYTES / element_factor(workload)
    own = np.where(_one_head_of_keys(workload, keys), 0.0, model.num_attention_heads / keys.tp)
    copied = np.where(_norms_views(workload, keys), own, normed)
    return copied * norm_input_bytes(workload, keys) * model.kv_channels + normed * statistic


def core_checkpoint_bytes(workload: Workload, keys: LayerKeys, *, local: bool = False) -> Floats:
    """Bytes a token that recompute of the core of attention adds. ``[k]``

    The checkpoint keeps queries, keys and values as it gets them. Values are a view of the projection, which therefore stays as
    a whole: 2 d (H + 2 Hk) / t in place of a copy of the values and of statistics [megatron-0.12, attention.py]. It adds
    nothing where the projection is kept anyway, where queries and keys are views as well, for want of a rotary
    embedding, or where the values are a copy: behind an exchange of Ulysses, in latent attention and in layers that repeat them.
    """
    model, t = workload.model, keys.tp.astype(np.float64)
    none = np.zeros_like(t)
    copied = model.mla is not None or workload.software.legacy_layers or model.linear_attention(local=local) is not None
    if copied or not workload.software_traits.eager:
        return none
    heads, groups = model.num_attention_heads, key_value_heads(model, keys)
    statistics = statistics_bytes(workload, keys)
    view = ELEMENT_BYTES * model.kv_channels * (heads + groups) * rotates(model) - statistics
    views = keys.recomputes(RecomputeModule.CORE_ATTN) & (keys.ulysses_degree <= 1) & ~keeps_projection(workload, keys)
    return np.where(views, view / t, 0.0)

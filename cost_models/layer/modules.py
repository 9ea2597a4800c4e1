"""Compute time of one layer and micro batch, module by module, on the matmul, attention and vector units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.adapters import AdapterTimes, adapter_times, dequantise_s
from cost_models.layer.attention_bytes import fused_head_dims
from cost_models.layer.compute import (
    ADD_BYTES,
    ELEMENT_BYTES,
    READ_WRITE_BYTES,
    Device,
    fused_attention_s,
    matmul_s,
    state_s,
    unfused_attention_s,
    vector_s,
)
from cost_models.layer.every_other_matmul import compresses_queries, repeats_projection
from cost_models.layer.expert_passes import ExpertPasses, expert_passes
from cost_models.layer.expert_rows import expert_rows, padded, routed_copies
from cost_models.layer.linear_attention import head_ranks, linear_attention_moved_bytes, linear_attention_s
from cost_models.layer.lone_norms import lone_norms
from cost_models.layer.quantisation import quantise_s
from cost_models.layer.sparse_attention import attends_to_latents, chosen_attention_s, indexer_s
from cost_models.shapes.flops import attended_length, attention_score_flops_per_token, chosen_length
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.parameters import projected_steps
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MlaShape, ModelShape, Workload
from documents.late_methods import dataclass

# Device kernels that scale, cast and swizzle the operands of one expert's two matmuls. One call to the library launches them
# all [transformer-engine]; [runs-fit].
QUANTISED_EXPERT_LAUNCHES = 10
EXPERT_STREAMS = 4  # the matmuls of a rank's experts alternate between them [transformer-engine, multi_stream.cpp]
PERMUTE_FUSION_FRACTION = 1.0 / 3.0  # permutation traffic with fusion over that without [runs-fit]
PADDED_PERMUTE_PASSES = 4.0  # HBM passes over padded tokens: an index gather reads and writes once each way
UNFUSED_VECTOR_FACTOR = 2.5  # assumed traffic of an unfused norm, activation or rotary embedding over the fused kernel
SCORE_FLOPS = 4.0  # a score and channel of its head, forward: two matmuls
MASK_BYTES = 1.0  # a score: 8-bit booleans [cann]
ROUTER_BYTES = 40.0  # a token and expert: FP32 logits, softmax, top-k and auxiliary loss are assumed to be ten passes of 4 bytes


@dataclass(frozen=True)
class Matmuls:
    """Forward matmul seconds of a layer's modules, and of the parts that a selective recompute repeats; ``[k]``."""

    attention: Floats
    mla_up: Floats
    mlp: Floats
    last: Floats  # second matmul of the MLP, whose output no gradient needs
    moe: Floats
    entering: Floats  # projections to queries, keys and values, without ``mla_up`` and its latents
    mla_query_up: Floats  # part of ``mla_up``
    router: Floats
    shared_last: Floats  # part of ``last``
    frozen_attention: Floats  # part of ``attention`` whose weights are not trained; all or nothing of it without adapters
    frozen_block: Floats  # the same of ``mlp`` and ``moe``

    @property
    def total(self) -> Floats:
        """Seconds of all matmuls, ``[k]``. Fields after ``moe``, ``mla_up`` and ``last`` are parts of the others."""
        return self.attention + self.mlp + self.moe

    @property
    def weight_gradient(self) -> Floats:
        """Seconds of the matmuls of a backward that only gradients of weights need, ``[k]``; frozen weights have none."""
        return self.total - self.frozen_attention - self.frozen_block

    @property
    def backward(self) -> Floats:
        """Seconds of all matmuls of a backward, ``[k]``: gradients of inputs, and of trained weights."""
        return self.total + self.weight_gradient


def _attention_matmuls(
    model: ModelShape, keys: LayerKeys, n: Floats, n_l: Floats, device: Device, *, local: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Forward projections of attention. [s] ``[k]``

    Parameters
    ----------
    n : ``[k]``, tokens
    n_l : ``[k]``, tokens
        Between the tensor-parallel blocks: down-projections run on the sequence shard.

    Returns
    -------
    tuple of Floats
        All projections; the latent up-projections that ``mla_up_proj`` recomputes; of these, the queries'; without latents, the
        projection to queries, keys and values.
    """
    h, heads, t, linear = model.hidden_size, model.num_attention_heads, keys.tp, model.linear_attention(local=local)
    none = np.zeros_like(n)
    if not model.has_mixer:
        return none, none, none, none
    if linear is not None:
        width = 2 * linear.query_key_width + 2 * linear.value_width + projected_steps(linear)
        entering = matmul_s(n, width / t, h, device)
        return entering + matmul_s(n, h, linear.value_width / t, device), none, none, entering
    if model.mla is None:
        d = model.kv_channels
        groups = np.maximum(model.num_query_groups, t)
        queries = heads * (2 if model.attention_output_gate else 1)
        qkv = matmul_s(n, (queries + 2 * groups) * d / t, h, device)
        return qkv + matmul_s(n, h, heads * d / t, device), none, none, qkv
    mla = model.mla
    kv_up = matmul_s(n, heads * (mla.qk_nope_head_dim + mla.v_head_dim) / t, mla.kv_lora_rank, device)
    down = matmul_s(n_l, mla.kv_lora_rank + mla.qk_rope_head_dim, h, device)
    query_up = matmul_s(n, heads * mla.qk_head_dim / t, mla.q_lora_rank or h, device)
    if mla.q_lora_rank:
        down = down + matmul_s(n_l, mla.q_lora_rank, h, device)
    up = kv_up + query_up if mla.q_lora_rank else kv_up
    total = down + up if mla.q_lora_rank else down + up + query_up
    return total + matmul_s(n, h, heads * mla.v_head_dim / t, device), up, query_up, none


def _mlp_matmuls(model: ModelShape, width: float, keys: LayerKeys, n: Floats, device: Device) -> tuple[Floats, Floats]:
    """Forward matmuls of an MLP, and the second one alone. [s] ``[k]``

    Parameters
    ----------
    width
        Channels between the two matmuls; 0 if there is no MLP.
    n : ``[k]``, tokens
    """
    if width <= 0:
        return np.zeros_like(n), np.zeros_like(n)
    ways = 2 if model.gated_linear_unit else 1
    second = matmul_s(n, model.hidden_size, width / keys.tp, device)
    return matmul_s(n, ways * width / keys.tp, model.hidden_size, device) + second, second


def has_one_expert_kernel(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether all experts of a rank run as one kernel: with Ascend's grouped matmul, or on a GPU inside a graph. ``[k]``

    A GPU's grouped matmul is a loop over plain ones, and the host must know their sizes [transformer-engine, grouped_linear.py].
    """
    return keys.has(Feature.MOE_GROUPED_GEMM) & (keys.has(Feature.CUDA_GRAPH) | workload.device_traits.one_expert_kernel)


def _matmuls(workload: Workload, keys: LayerKeys, device: Device, adapters: AdapterTimes, *, moe: bool, local: bool) -> Matmuls:
    """Forward matmuls of one layer; experts without a common kernel pay one launch each. [s] ``[k]``"""
    model, training = workload.model, workload.training
    n, n_l = keys.tokens(training), keys.sharded_tokens(training)
    attention, up, query_up, entering = _attention_matmuls(model, keys, n, n_l, device, local=local)
    shape = model.moe if moe else None
    zero = np.zeros_like(n)
    frozen = float(training.task.is_frozen)
    adapted = attention + adapters.attention
    if shape is None:
        mlp, last = _mlp_matmuls(model, model.ffn_hidden_size, keys, n, device)
        parts = (zero, entering, query_up, zero, zero)
        return Matmuls(adapted, up, mlp + adapters.mlp, last, *parts, frozen * attention, frozen * mlp)
    rows = expert_rows(keys, shape, training)
    held = np.maximum(shape.num_experts / keys.ep, 1.0)
    width = shape.expert_ffn_hidden_size / keys.etp
    ways = 2 if model.gated_linear_unit else 1
    one_kernel = has_one_expert_kernel(workload, keys)
    streams = np.where(one_kernel, held, EXPERT_STREAMS)
    first = matmul_s(rows, ways * width, model.hidden_size, device, groups=held, at_once=streams)
    second = matmul_s(rows, model.hidden_size, width, device, groups=held, at_once=streams)
    # Without one kernel for all experts, each expert has its own launches.
    each = 2.0 + (QUANTISED_EXPERT_LAUNCHES if workload.training.precision in QUANTISED_PRECISIONS else 0.0)
    kernel_s = device.constants.kernel_s * device.time_factor
    launches = np.where(one_kernel, 0.0, (held - 1.0) * each * kernel_s)
    experts = first + second + launches
    router = matmul_s(n_l, shape.num_experts, model.hidden_size, device, flops_per_s=device.unquantised_flops_per_s)
    shared, shared_last = _mlp_matmuls(model, shape.shared_expert_ffn_hidden_size, keys, n, device)
    last, moe_s = second + shared_last, experts + router + shared
    own = (entering, query_up, router, shared_last)
    return Matmuls(adapted, up, zero, last, moe_s + adapters.mlp, *own, frozen * attention, frozen * moe_s)


def _attention_core(workload: Workload, keys: LayerKeys, device: Device, *, local: bool) -> tuple[Floats, Floats]:
    """Forward and backward time of scores, softmax and values. [s] ``[k]``

    Fused attention sees a window as a shorter sequence. Without flash attention all scores are written out, whatever the mask.
    A recurrence runs in chunks. Sparse attention without its kernel has a mask in place of a choice.
    """
    model, training = workload.model, workload.training
    n, linear = keys.tokens(training), model.linear_attention(local=local)
    if not model.has_mixer:
        return np.zeros_like(n), np.zeros_like(n)
    if linear is not None:
        return linear_attention_s(linear, n, keys, device)
    dense = _dense_core(workload, keys, device, n, local=local)
    if model.sparse_attention is None:
        return dense
    chosen, latents = chosen_attention_s(workload, keys, device), attends_to_latents(keys)
    return np.where(latents, chosen[0], dense[0]), np.where(latents, chosen[1], dense[1])


def _dense_core(workload: Workload, keys: LayerKeys, device: Device, n: Floats, *, local: bool) -> tuple[Floats, Floats]:
    """``_attention_core`` of kernels that go through all tokens of a mask or a window. [s] ``[k]``

    Parameters
    ----------
    n : ``[k]``, tokens
    """
    model, training = workload.model, workload.training
    head_dim = model.kv_channels if model.mla is None else model.mla.qk_head_dim
    flops = attention_score_flops_per_token(model, training.attended_length, local=local) * n / keys.tp
    if model.mla is not None:
        flops = flops * (sum(fused_head_dims(model.mla, workload)) / (model.mla.qk_head_dim + model.mla.v_head_dim))
    if model.alibi and workload.device_traits.position_bias_fills_mask:
        flops = 2.0 * flops  # a position bias comes with a full mask: no block is skipped [mindspeed-attention]
    if model.sparse_attention is not None:  # neither is one of a mask of the chosen tokens [mindspeed-llm, dsa_indexer.py]
        flops = 2.0 * flops * training.attended_length / chosen_length(model, training.attended_length)
    # A block sees one shard of the sequence at a time; Ulysses and most stacks that gather keys see the whole sequence.
    length = attended_length(model, training.attended_length, local=local)
    whole = keys.gathers_keys & (not workload.software_traits.attends_by_blocks)
    visible = length / np.where(whole, 1.0, np.maximum(keys.cp / keys.ulysses_degree, 1.0))
    mask_s = _mask_s(workload, keys, flops, head_dim, device)
    fused = tuple(kernel_s + mask_s for kernel_s in fused_attention_s(flops, visible, head_dim, device))
    if keys.has(Feature.FLASH_ATTENTION).all():
        return fused[0], fused[1]
    scores = n * training.seq_length * model.num_attention_heads / keys.tp
    unfused = unfused_attention_s(scores, head_dim, device)
    flash = keys.has(Feature.FLASH_ATTENTION)
    return np.where(flash, fused[0], unfused[0]), np.where(flash, fused[1], unfused[1])


def _padding_elements(mla: MlaShape, workload: Workload) -> int:
    """Half of the elements of a head that padding reads and writes; 0 without padding.

    They belong to queries, keys and values, and to the slice of the output.
    """
    queries, values = fused_head_dims(mla, workload)
    moved = 0
    if queries > mla.qk_head_dim:
        moved += 2 * (mla.qk_head_dim + queries)
    if values > mla.v_head_dim:
        moved += mla.v_head_dim + values + 2 * mla.v_head_dim
    return moved // 2


def _mask_s(workload: Workload, keys: LayerKeys, flops: Floats, head_dim: int, device: Device) -> Floats:
    """Time of fused attention to read a mask of all scores, in either pass; every head reads its own. [s] ``[k]``

    It is 0 if the kernel builds the mask itself.

    Parameters
    ----------
    flops : ``[k]``
        Forward FLOPs: 4 d for each score that the kernel does not skip.
    """
    chosen = workload.model.sparse_attention is not None  # no kernel builds a mask of chosen tokens
    if not (workload.reads_whole_mask or chosen):
        return np.zeros_like(flops)
    return np.where((keys.cp > 1) & (not chosen), 0.0, state_s(MASK_BYTES * flops / (SCORE_FLOPS * head_dim), device))


@dataclass(frozen=True)
class VectorTimes:
    """Forward seconds of memory-bound operators, ``[k]``. ``*_again`` are the parts that recompute of the operators repeats."""

    norms: Floats
    rope: Floats
    activation: Floats
    rest: Floats
    norms_again: Floats
    activation_again: Floats
    mlp_norm: Floats  # that a dense MLP contains

    @property
    def total(self) -> Floats:
        """Seconds of all of them, ``[k]``."""
        return self.norms + self.rope + self.activation + self.rest


def _vector(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool, local: bool) -> VectorTimes:
    """Memory-bound operators of a forward, priced by the bytes that each reads and writes. [s] ``[k]``

    Notes
    -----
    Norms 8 h a token (twice with sandwich norm), rotary embedding 4 (H + Hk) d, gated activation 6 f, two residual sums 12 h,
    more in FP32 (``shapes.residual``), split and transpose of q, k, v 4 (H + 2 Hk) d, router 40 E. A layer of one block has half
    of the norms and sums. An operator that is not fused moves ``UNFUSED_VECTOR_FACTOR`` times that.
    """
    model, training = workload.model, workload.training
    n, n_l, t = keys.tokens(training), keys.sharded_tokens(training), keys.tp
    h, heads, d = model.hidden_size, model.num_attention_heads, model.kv_channels
    zero = np.zeros_like(n)
    if model.mla is not None:
        rotary = model.mla.qk_rope_head_dim * (heads + t) + zero
        moved = heads * (2 * model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim + model.mla.v_head_dim)
        moved += heads * _padding_elements(model.mla, workload)
    else:
        rotary = (heads + model.num_query_groups) * d + zero
        moved = (heads + 2 * model.num_query_groups) * d
    linear = model.linear_attention(local=local)
    moved_bytes = READ_WRITE_BYTES * moved + zero
    if linear is not None:
        moved_bytes = linear_attention_moved_bytes(linear, head_ranks(linear, keys))
    if model.learned_positions or model.no_positions or linear is not None:
        rotary = zero
    elif model.attention_output_gate:
        moved_bytes = moved_bytes + (READ_WRITE_BYTES + ADD_BYTES) * heads * d  # split off, and multiplied with the output
    shape = model.moe if moe else None
    if shape is None:
        routed, common, router = zero, n * model.ffn_hidden_size / t, zero
    else:
        routed = expert_rows(keys, shape, training) * shape.expert_ffn_hidden_size / keys.etp
        common = n * shape.shared_expert_ffn_hidden_size / t
        router = ROUTER_BYTES * shape.num_experts * n_l / device.element_factor  # in FP32 anyway

    def unfused(feature: Feature) -> Floats:
        return np.where(keys.has(feature), 1.0, UNFUSED_VECTOR_FACTOR)

    norm = READ_WRITE_BYTES * h * n_l * (2.0 if model.sandwich_norm else 1.0) * unfused(Feature.FUSED_NORM)
    channel = (ADD_BYTES if model.gated_linear_unit else READ_WRITE_BYTES) * unfused(Feature.FUSED_SWIGLU)
    rope = READ_WRITE_BYTES * rotary * n / t * unfused(Feature.FUSED_ROPE)
    # Residual sums; split and transpose of q, k and v.
    rest = model.num_blocks / 2.0 * workload.residual.moved_bytes * h * n_l + moved_bytes * n / t + router
    first, second = lone_norms(workload, keys, moe=moe, local=local)
    again = routed if workload.software_traits.recomputes_routed_activations else routed + common
    parts = [model.num_blocks * norm, rope, channel * (routed + common), rest]
    parts += [(first + second) * norm, channel * again, (model.has_mlp - second) * norm]
    return VectorTimes(*(vector_s(part, device) for part in parts))


def _permute_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    """Time to sort routed tokens by expert, or back, in either pass. [s] ``[k]``"""
    shape = workload.model.moe
    assert shape is not None
    rows = routed_copies(keys, shape, workload.training)
    fusion = np.where(keys.has(Feature.MOE_PERMUTE_FUSION), PERMUTE_FUSION_FRACTION, 1.0)
    # Padded to capacity, tokens are gathered by index in one pass each way.
    passes = np.where(padded(keys, shape), PADDED_PERMUTE_PASSES, device.constants.permute_passes * fusion)
    return vector_s(ELEMENT_BYTES * workload.model.hidden_size * rows * passes, device)


def _shared_expert_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    """Forward matmuls of the shared experts, which can overlap an exchange. [s] ``[k]``"""
    shape = workload.model.moe
    assert shape is not None
    width = shape.shared_expert_ffn_hidden_size
    return _mlp_matmuls(workload.model, width, keys, keys.tokens(workload.training), device)[0]


def _selective_recompute(
    keys: LayerKeys, matmuls: Matmuls, attention_forward: Floats, vector: VectorTimes, permute: Floats, passes: ExpertPasses
) -> Floats:
    """Compute that the recomputed modules repeat in the backward. [s] ``[k]``

    Parameters
    ----------
    matmuls, vector, passes : ``[k]``, seconds
    attention_forward : ``[k]``, seconds
        The core of attention, forward.
    permute : ``[k]``, seconds
        One pass.
    """
    again = keys.recomputes
    repeated = np.where(again(RecomputeModule.CORE_ATTN), attention_forward, 0.0)
    repeated = repeated + np.where(again(RecomputeModule.LAYERNORM), vector.norms_again, 0.0)
    repeated = repeated + np.where(again(RecomputeModule.MLA_UP_PROJ), matmuls.mla_up + vector.rope, 0.0)
    module = np.where(again(RecomputeModule.MLP) & (matmuls.mlp > 0), matmuls.mlp + vector.mlp_norm, 0.0)
    module = module + np.where(again(RecomputeModule.MOE), matmuls.moe + permute + passes.biases_forward, 0.0)
    zero_memory = keys.has(Feature.MOE_ZERO_MEMORY) & (matmuls.moe > 0)
    whole, part = zero_memory | (module > 0), again(RecomputeModule.MLP_ACT)
    activation = np.where(whole, vector.activation, vector.activation_again) + passes.clamps_forward
    return repeated + module + np.where(whole | part, activation, 0.0)


def _alternate_matmuls(
    workload: Workload,
    keys: LayerKeys,
    matmuls: Matmuls,
    vector: VectorTimes,
    permute: Floats,
    passes: ExpertPasses,
    shared: Floats,
) -> Floats:
    """Compute that a backward repeats where every other plain matmul is kept. [s] ``[k]``

    Keys (not of one matmul with queries), the projection behind attention, up, router and experts, and all operators between
    them; neither attention nor gate and down. Of latent attention the latents and the projection; or, with latents of queries,
    queries, keys and values, then gate in place of up, and down of shared experts, behind which the outputs of experts are
    weighted. ``shared`` are the forward matmuls of shared experts, the others are those of ``_selective_recompute``.
    """
    again = keys.recomputes(RecomputeModule.EVERY_OTHER_MATMUL)
    if not again.any():
        return np.zeros(len(keys.tp))
    groups = key_value_heads(workload.model, keys)
    of_keys = matmuls.entering * groups / (workload.model.num_attention_heads + 2.0 * groups)
    if workload.software.newest_layers:
        of_keys = np.zeros(len(keys.tp))
    projection = np.where(repeats_projection(workload, keys), matmuls.attention - matmuls.entering, 0.0)
    if workload.model.mla is not None:
        latents = matmuls.attention - matmuls.mla_up - matmuls.mla_query_up
        of_keys, projection = matmuls.mla_up if compresses_queries(workload.model) else latents, np.zeros(len(keys.tp))
    gate_and_up = np.where(matmuls.moe > 0, shared - matmuls.shared_last, matmuls.mlp - matmuls.last)
    routed = np.where(matmuls.moe > 0, matmuls.moe - shared + permute + passes.clamps_forward, 0.0)
    if compresses_queries(workload.model):
        routed = routed + matmuls.shared_last
    return np.where(again, of_keys + projection + gate_and_up / 2.0 + routed + vector.total, 0.0)


@dataclass(frozen=True)
class LayerCompute:
    """Compute of one layer and micro batch in seconds, columns ``[k]``, without communication and host time."""

    matmuls: Matmuls
    attention_forward: Floats  # with an indexer
    attention_backward: Floats
    vector_forward: Floats  # casts of 8- and 4-bit operands included
    vector_backward: Floats
    vector: VectorTimes  # forward, without those casts and without adapters
    permute: Floats  # the same in both passes
    shared_expert: Floats  # forward; part of the matmuls
    selective_recompute: Floats  # added to the backward

    @property
    def after_gather(self) -> Floats:
        """Seconds of the forward matmuls whose input tensor parallelism gathers, ``[k]``: into attention and a common MLP."""
        m = self.matmuls
        return m.entering + m.mla_up + np.where(m.mlp > 0.0, m.mlp - m.last, self.shared_expert - m.shared_last)

    @property
    def forward(self) -> Floats:
        """Seconds of the forward, ``[k]``."""
        return self.matmuls.total + self.attention_forward + self.vector_forward + self.permute

    @property
    def backward(self) -> Floats:
        """Seconds of the backward with the recompute of selected modules, ``[k]``."""
        core = self.matmuls.backward + self.attention_backward + self.vector_backward + self.permute
        return core + self.selective_recompute


def layer_compute(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool, local: bool = False) -> LayerCompute:
    """Compute time of one layer of the given kind for every key and one micro batch."""
    adapters = adapter_times(workload, keys, device, moe=moe)
    matmuls = _matmuls(workload, keys, device, adapters, moe=moe, local=local)
    attention_forward, attention_backward = _attention_core(workload, keys, device, local=local)
    vector = _vector(workload, keys, device, moe=moe, local=local)
    quantise_forward, quantise_backward = quantise_s(workload, keys, device, moe=moe, local=local)
    zero = np.zeros(len(keys.tp))
    core = attention_forward if workload.model.linear_attention(local=local) is None else zero  # a recurrence has no such module
    if workload.model.sparse_attention is not None:
        index_forward, index_backward = indexer_s(workload, keys, device)
        attention_forward, attention_backward = attention_forward + index_forward, attention_backward + index_backward
    permute = _permute_s(workload, keys, device) if moe else zero
    passes = expert_passes(workload, keys, device, moe=moe)
    dequantise = dequantise_s(workload, keys, device, moe=moe, local=local)
    forward, backward = adapters.vector_forward + dequantise, adapters.vector_backward + dequantise
    shared = _shared_expert_s(workload, keys, device) if moe else zero
    return LayerCompute(
        matmuls=matmuls,
        attention_forward=attention_forward,
        attention_backward=attention_backward,
        vector_forward=vector.total + quantise_forward + passes.clamps_forward + passes.biases_forward + forward,
        vector_backward=2.0 * vector.total + quantise_backward + passes.clamps_backward + passes.biases_backward + backward,
        vector=vector,
        permute=permute,
        shared_expert=shared,
        selective_recompute=_selective_recompute(keys, matmuls, core, vector, permute, passes)
        + _alternate_matmuls(workload, keys, matmuls, vector, permute, passes, shared),
    )

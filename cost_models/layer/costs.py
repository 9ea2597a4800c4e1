"""Time of one layer for one micro batch, per layer key: forward, backward, and what computing it again costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.activations import activation_swap_s
from cost_models.layer.communication import (
    ExpertComm,
    context_parallel_comm,
    expert_comm,
    exposed_tp_fraction,
    tensor_parallel_comm,
    weight_comm,
)
from cost_models.layer.compute import Device, fused_attention_s, matmul_s, unfused_attention_s, vector_s
from cost_models.layer.expert_rows import expert_rows, padded, routed_copies
from cost_models.layer.quantisation import QUANTISED_PRECISIONS, quantise_s
from cost_models.network.tiers import Network
from cost_models.shapes.flops import attention_score_flops_per_token
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher, Feature, RecomputeModule
from cost_models.shapes.workload import ModelShape, Workload

# Kernels a forward pass of one eager layer launches; a backward launches twice as many [runs-fit].
ATTENTION_KERNELS, MLP_KERNELS, MOE_KERNELS, EXPERT_KERNELS = 20, 10, 30, 8  # the last for each expert without a grouped matmul
# To scale, cast and swizzle the operands of one expert's two matmuls: kernels on the device, which a single call to the
# library launches, so that the host spends about one eager kernel's time on them [transformer-engine]; [runs-fit].
QUANTISED_EXPERT_LAUNCHES, QUANTISED_EXPERT_KERNELS = 10, 1
FUSED_KERNELS_SAVED = {Feature.FUSED_NORM: 6, Feature.FUSED_SWIGLU: 2, Feature.FUSED_ROPE: 4}
SLOWEST_HOST_FRACTION = 0.1  # dispatch time that each doubling of tp adds: every collective waits for its slowest host [runs-fit]
PERMUTE_FUSION_FRACTION = 1.0 / 3.0  # of the permutation traffic is left [runs-fit]
UNFUSED_VECTOR_FACTOR = 2.5  # traffic of an unfused norm, activation or rotary embedding over the fused kernel


@dataclass(frozen=True)
class LayerCosts:
    """Columns ``[k]`` in seconds for one layer and one micro batch.

    ``forward`` and ``backward`` hold exposed time by part and sum to ``forward_s`` and ``backward_s``; ``masked`` is
    communication hidden behind them, forward and backward together. ``full_recompute_s`` is what a full recompute
    adds to the backward. ``weight_gradient_s`` is the part of the backward that only weight gradients need.
    ``pieces`` are both passes as ``cost_models.layer.pairs`` takes them apart, ``host`` what the host takes for either.
    """

    forward: dict[str, Floats]
    backward: dict[str, Floats]
    masked: dict[str, Floats]
    forward_s: Floats
    backward_s: Floats
    full_recompute_s: Floats
    weight_gradient_s: Floats
    pieces: dict[str, Floats]
    host: dict[str, Floats]


@dataclass(frozen=True)
class _Matmuls:
    """Forward matmul time of a layer's modules, and of what a selective recompute repeats."""

    attention: Floats
    mla_up: Floats
    mlp: Floats
    last: Floats  # second matmul of the MLP, whose output no gradient needs
    moe: Floats

    @property
    def total(self) -> Floats:
        return self.attention + self.mlp + self.moe


def _attention_matmuls(model: ModelShape, keys: LayerKeys, n: Floats, n_l: Floats, device: Device) -> tuple[Floats, Floats]:
    h, heads, t = model.hidden_size, model.num_attention_heads, keys.tp
    if model.mla is None:
        d = model.kv_channels
        groups = np.maximum(model.num_query_groups, t)
        qkv = matmul_s(n, (heads + 2 * groups) * d / t, h, device)
        return qkv + matmul_s(n, h, heads * d / t, device), np.zeros_like(n)
    mla = model.mla
    qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    kv_up = matmul_s(n, heads * (mla.qk_nope_head_dim + mla.v_head_dim) / t, mla.kv_lora_rank, device)
    down = matmul_s(n_l, mla.kv_lora_rank + mla.qk_rope_head_dim, h, device)
    if mla.q_lora_rank:
        down = down + matmul_s(n_l, mla.q_lora_rank, h, device)
        up = kv_up + matmul_s(n, heads * qk / t, mla.q_lora_rank, device)
        total = down + up
    else:
        up = kv_up
        total = down + up + matmul_s(n, heads * qk / t, h, device)
    return total + matmul_s(n, h, heads * mla.v_head_dim / t, device), up


def _mlp_matmuls(model: ModelShape, width: float, keys: LayerKeys, n: Floats, device: Device) -> tuple[Floats, Floats]:
    if width <= 0:
        return np.zeros_like(n), np.zeros_like(n)
    ways = 2 if model.gated_linear_unit else 1
    second = matmul_s(n, model.hidden_size, width / keys.tp, device)
    return matmul_s(n, ways * width / keys.tp, model.hidden_size, device) + second, second


def _has_one_expert_kernel(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether the experts of a rank run as one kernel: Ascend's grouped matmul; on a GPU where a graph holds the layer.

    A GPU's grouped matmul is a loop over plain ones, whose sizes the host must know [transformer-engine, grouped_linear.py].
    """
    return keys.has(Feature.MOE_GROUPED_GEMM) & (keys.has(Feature.CUDA_GRAPH) | workload.device_traits.one_expert_kernel)


def _matmuls(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool) -> _Matmuls:
    model, training = workload.model, workload.training
    n, n_l = keys.tokens(training), keys.sharded_tokens(training)
    attention, up = _attention_matmuls(model, keys, n, n_l, device)
    shape = model.moe if moe else None
    zero = np.zeros_like(n)
    if shape is None:
        mlp, last = _mlp_matmuls(model, model.ffn_hidden_size, keys, n, device)
        return _Matmuls(attention, up, mlp, last, zero)
    rows = expert_rows(keys, shape, training)
    local = np.maximum(shape.num_experts / keys.ep, 1.0)
    width = shape.expert_ffn_hidden_size / keys.etp
    ways = 2 if model.gated_linear_unit else 1
    first = matmul_s(rows, ways * width, model.hidden_size, device, groups=local)
    second = matmul_s(rows, model.hidden_size, width, device, groups=local)
    # Without one kernel for all of them every expert is launched for itself.
    each = 2.0 + (QUANTISED_EXPERT_LAUNCHES if workload.training.precision in QUANTISED_PRECISIONS else 0.0)
    kernel_s = device.constants.kernel_s * device.time_factor
    launches = np.where(_has_one_expert_kernel(workload, keys), 0.0, (local - 1.0) * each * kernel_s)
    factor = np.where(local > 1.0, device.constants.expert_matmul_factor, 1.0)  # one expert is a plain matmul
    experts = (first + second) * factor + launches
    router = matmul_s(n_l, shape.num_experts, model.hidden_size, device, flops_per_s=device.bf16_flops_per_s)
    shared, shared_last = _mlp_matmuls(model, shape.shared_expert_ffn_hidden_size, keys, n, device)
    return _Matmuls(attention, up, zero, second * factor + shared_last, experts + router + shared)


def _attention_core(workload: Workload, keys: LayerKeys, device: Device) -> tuple[Floats, Floats]:
    model, training = workload.model, workload.training
    n = keys.tokens(training)
    head_dim = model.kv_channels if model.mla is None else model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim
    attended = training.seq_length * training.mean_squared_length_fraction
    flops = attention_score_flops_per_token(model, attended) * n / keys.tp
    if model.alibi and workload.device_traits.position_bias_fills_mask:
        flops = 2.0 * flops  # a position bias comes with a full mask: no block is skipped [mindspeed-attention]
    # A ring step sees one shard of the sequence at a time; Ulysses sees all of what it gathers.
    visible = training.seq_length / np.maximum(keys.cp / keys.ulysses_degree, 1.0) * training.mean_squared_length_fraction
    fused = fused_attention_s(flops, visible, head_dim, device)
    if keys.has(Feature.FLASH_ATTENTION).all():
        return fused
    scores = n * training.seq_length * model.num_attention_heads / keys.tp
    unfused = unfused_attention_s(scores, head_dim, device)
    flash = keys.has(Feature.FLASH_ATTENTION)
    return np.where(flash, fused[0], unfused[0]), np.where(flash, fused[1], unfused[1])


@dataclass(frozen=True)
class _Vector:
    """Forward time of memory-bound operators."""

    norms: Floats
    rope: Floats
    activation: Floats
    rest: Floats

    @property
    def total(self) -> Floats:
        return self.norms + self.rope + self.activation + self.rest


def _vector(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool) -> _Vector:
    model, training = workload.model, workload.training
    n, n_l, t = keys.tokens(training), keys.sharded_tokens(training), keys.tp
    h, heads, d = model.hidden_size, model.num_attention_heads, model.kv_channels
    zero = np.zeros_like(n)
    if model.mla is not None:
        rotary = model.mla.qk_rope_head_dim * (heads + t) + zero
        moved = heads * (2 * model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim + model.mla.v_head_dim)
    else:
        rotary = (heads + model.num_query_groups) * d + zero
        moved = (heads + 2 * model.num_query_groups) * d
    if model.learned_positions:
        rotary = zero
    shape = model.moe if moe else None
    if shape is None:
        widths, router = n * model.ffn_hidden_size / t, zero
    else:
        rows = expert_rows(keys, shape, training)
        widths = rows * shape.expert_ffn_hidden_size / keys.etp + n * shape.shared_expert_ffn_hidden_size / t
        router = 40.0 * shape.num_experts * n_l  # FP32 logits, softmax, top-k, auxiliary loss: ten passes

    def unfused(feature: Feature) -> Floats:
        return np.where(keys.has(feature), 1.0, UNFUSED_VECTOR_FACTOR)

    factor = device.constants.graph_vector_factor if workload.software_traits.graph_vector_operators else 1.0
    norms = 8.0 * h * n_l * (2.0 if model.sandwich_norm else 1.0) * unfused(Feature.FUSED_NORM)
    activation = (6.0 if model.gated_linear_unit else 4.0) * widths * unfused(Feature.FUSED_SWIGLU)
    rope = 4.0 * rotary * n / t * unfused(Feature.FUSED_ROPE)
    rest = 12.0 * h * n_l + 4.0 * moved * n / t + router  # two residual adds; split and transpose of q, k, v
    return _Vector(*(vector_s(part * factor, device) for part in (norms, rope, activation, rest)))


def _permute_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    shape = workload.model.moe
    assert shape is not None
    rows = routed_copies(keys, shape, workload.training)
    fusion = np.where(keys.has(Feature.MOE_PERMUTE_FUSION), PERMUTE_FUSION_FRACTION, 1.0)
    # Padded to capacity, tokens are gathered by index in one pass each way.
    passes = np.where(padded(keys, shape), 4.0, device.constants.permute_passes * fusion)
    return vector_s(2.0 * workload.model.hidden_size * rows * passes, device)


def _host_s(workload: Workload, keys: LayerKeys, constants: Constants, *, moe: bool) -> tuple[Floats, Floats]:
    """Host time to dispatch a forward, and what a dropless MoE pass waits for the host besides."""
    graph = not workload.software_traits.eager
    captured = keys.has(Feature.CUDA_GRAPH) | graph
    kernels = np.full(len(keys.tp), float(ATTENTION_KERNELS + (MOE_KERNELS if moe else MLP_KERNELS)))
    shape, looped = workload.model.moe, np.zeros(len(keys.tp))
    if moe and shape is not None:
        looped = np.where(keys.has(Feature.MOE_GROUPED_GEMM), 0.0, np.maximum(shape.num_experts / keys.ep, 1.0))
        kernels = kernels + EXPERT_KERNELS * looped
        if workload.training.precision in QUANTISED_PRECISIONS:
            cast_alone = ~_has_one_expert_kernel(workload, keys)
            kernels = kernels + np.where(cast_alone, QUANTISED_EXPERT_KERNELS * np.maximum(shape.num_experts / keys.ep, 1.0), 0.0)
    for feature, saved in FUSED_KERNELS_SAVED.items():
        kernels = kernels - np.where(keys.has(feature), saved, 0)
    each = constants.host_kernel_s * np.where(captured, constants.graph_dispatch_factor, 1.0)
    dispatch = kernels * each * (1.0 + SLOWEST_HOST_FRACTION * np.log2(keys.tp))
    dropless = moe and shape is not None and not shape.capacity_factor
    # Without a grouped kernel the shapes of each expert's own kernels follow from its count: one more wait each.
    # What a graph has captured takes the counts from the device.
    waits = np.where(captured, 0.0, (1.0 + looped) * float(dropless))
    return dispatch, waits * constants.host_moe_sync_s


def _hidden(time: Floats, window: Floats, stretch: float) -> tuple[Floats, Floats]:
    """Exposed and masked part of communication beside ``window`` seconds of compute, which it stretches."""
    masked = np.minimum(time, window)
    return time - masked + stretch * masked, (1.0 - stretch) * masked


def layer_costs(workload: Workload, keys: LayerKeys, device: Device, network: Network, *, moe: bool) -> LayerCosts:
    """Price one layer of the given kind for every key.

    Overlap: TP communication by the fused or overlapped kernels' exposed share, its backward also beside weight
    gradients; a ring hop behind the attention of its block; expert communication behind what ``_hidden_exchange_s`` says;
    ZeRO-3 gathers behind the layer's compute.
    """
    c = device.constants
    matmuls = _matmuls(workload, keys, device, moe=moe)
    attention_forward, attention_backward = _attention_core(workload, keys, device)
    vector = _vector(workload, keys, device, moe=moe)
    quantise_forward, quantise_backward = quantise_s(workload, keys, device, moe=moe)
    zero = np.zeros(len(keys.tp))
    permute = _permute_s(workload, keys, device) if moe else zero

    tp = tensor_parallel_comm(workload, keys, network, moe=moe)
    tp_fraction = exposed_tp_fraction(keys, c)
    tp_forward = tp.forward_s * tp_fraction
    tp_backward = tp.backward_s * tp_fraction * c.backward_tp_exposed_fraction
    masked_tp = tp.forward_s + tp.backward_s - tp_forward - tp_backward + tp.regather_s

    cp = context_parallel_comm(workload, keys, network)
    blocks = np.maximum(cp.num_hops + 1.0, 1.0)
    hop_s, block_forward, block_backward = cp.hop_s * c.cp_factor, attention_forward / blocks, attention_backward / blocks
    hop_forward = _hidden(hop_s, block_forward, c.hidden_stretch_fraction)
    hop_backward = _hidden(2.0 * hop_s, block_backward, c.hidden_stretch_fraction)
    cp_forward = cp.all_to_all_s * c.cp_factor + cp.num_hops * hop_forward[0]
    cp_backward = cp.all_to_all_s * c.cp_factor + cp.num_hops * hop_backward[0]
    masked_cp = cp.num_hops * (hop_forward[1] + hop_backward[1])

    ep_forward = ep_backward = ep_hidden_forward = ep_hidden_backward = masked_ep = shared_s = zero
    ep = ExpertComm(zero, zero)
    if moe:
        ep, shared_s = expert_comm(workload, keys, network, c), _shared_expert_s(workload, keys, device)
        ep_hidden_forward, ep_hidden_backward = _hidden_exchange_s(workload, keys, ep, matmuls.moe, shared_s)
        ep_s = ep.dispatch_s + ep.combine_s
        masked = 1.0 - c.hidden_stretch_fraction
        ep_forward, ep_backward = ep_s - masked * ep_hidden_forward, ep_s - masked * ep_hidden_backward
        masked_ep = masked * (ep_hidden_forward + ep_hidden_backward)

    vector_forward, vector_backward = vector.total + quantise_forward, 2.0 * vector.total + quantise_backward
    forward_compute = matmuls.total + attention_forward + vector_forward + permute
    core_backward = 2.0 * matmuls.total + attention_backward + vector_backward + permute
    selective = _selective_recompute(keys, matmuls, attention_forward, vector, permute)
    backward_compute = core_backward + selective
    selective_comm = np.where(keys.recomputes(RecomputeModule.MOE), ep_forward, 0.0)

    gather, scatter = weight_comm(workload, keys, network, moe=moe)
    # Compute that hides one communication already hides no second one.
    free_forward = forward_compute - cp.num_hops * np.minimum(hop_s, block_forward) - ep_hidden_forward
    free_backward = backward_compute - cp.num_hops * np.minimum(2.0 * hop_s, block_backward) - ep_hidden_backward
    gather_forward, masked_forward = _hidden(gather, free_forward, c.hidden_stretch_fraction)
    gather_backward, masked_backward = _hidden(gather + scatter, free_backward, c.hidden_stretch_fraction)

    swap_s = activation_swap_s(workload, keys)
    swap_forward, masked_swap = _hidden(swap_s, free_forward - np.minimum(gather, free_forward), c.hidden_stretch_fraction)
    swap_backward, masked_swap_back = _hidden(
        swap_s, free_backward - np.minimum(gather + scatter, free_backward), c.hidden_stretch_fraction
    )
    dispatch, wait = _host_s(workload, keys, c, moe=moe)
    forward = {
        "matmul": matmuls.total,
        "attention": attention_forward,
        "vector": vector_forward,
        "permute": permute,
        "recompute": zero,
        "tp_comm": tp_forward,
        "cp_comm": cp_forward,
        "ep_comm": ep_forward,
        "weight_gather": gather_forward,
        "activation_swap": swap_forward,
    }
    backward = {
        "matmul": 2.0 * matmuls.total,
        "attention": attention_backward,
        "vector": vector_backward,
        "permute": permute,
        "recompute": selective + selective_comm,
        "tp_comm": tp_backward,
        "cp_comm": cp_backward,
        "ep_comm": ep_backward,
        "weight_gather": gather_backward,
        "activation_swap": swap_backward,
    }
    # The host runs ahead while the device computes or communicates; only what it needs beyond that shows.
    forward["host"] = np.maximum(dispatch - sum(forward.values(), zero), 0.0) + wait
    backward["host"] = np.maximum(2.0 * dispatch - sum(backward.values(), zero), 0.0) + wait
    # A compiled graph drops what no gradient needs: the last matmul of the layer and the TP collectives [mindformers-1.8].
    graph = not workload.software_traits.eager
    again = forward_compute - (matmuls.last if graph else 0.0) + (0.0 if graph else tp_forward)
    again = again + cp_forward + ep_forward + np.where(wait > 0, wait, 0.0)
    forward_s, backward_s = sum(forward.values(), zero), sum(backward.values(), zero)
    experts = matmuls.moe + matmuls.mlp - shared_s
    device_forward, device_backward = forward_s - forward["host"] + wait, backward_s - backward["host"] + wait
    pieces = {
        "attention": device_forward - ep_forward - experts - shared_s - permute,
        "experts": experts + permute,
        "experts_back": experts + permute,
        "attention_back": device_backward - ep_backward - 2.0 * (experts + shared_s) - permute - matmuls.attention,
        "experts_weights": experts,
        "attention_weights": matmuls.attention,
    }
    if moe:
        pieces |= {"shared": shared_s, "dispatch": ep.dispatch_s, "combine": ep.combine_s}
        pieces |= {"shared_back": 2.0 * shared_s, "combine_back": ep.combine_s, "dispatch_back": ep.dispatch_s}
    return LayerCosts(
        forward=forward,
        backward=backward,
        masked={
            "tp_comm": masked_tp,
            "cp_comm": masked_cp,
            "ep_comm": masked_ep,
            "weight_gather": masked_forward + masked_backward,
            "activation_swap": masked_swap + masked_swap_back,
        },
        forward_s=forward_s,
        backward_s=backward_s,
        full_recompute_s=again - np.where(keys.recompute_modules > 0, selective + selective_comm, 0.0),
        weight_gradient_s=matmuls.total,
        pieces=pieces,
        host={"forward": dispatch + wait, "backward": 2.0 * dispatch + wait},
    )


def _hidden_exchange_s(
    workload: Workload, keys: LayerKeys, exchange: ExpertComm, moe_matmuls_s: Floats, shared_s: Floats
) -> tuple[Floats, Floats]:
    """Of dispatch and combine together, what a forward and a backward that run alone hide. ``[k]``

    A switch that overlaps within the micro batch hides it behind the MoE matmuls, ``moe_shared_expert_overlap`` behind the shared
    experts. ``moe_comm_overlap`` hides it in merged pairs: a pass that runs alone sends and waits. On Ascend the shared experts
    run beside the dispatch, or in the backward beside the combine [mindspeed-fb-overlap, fwd.py; bwd.py], Megatron's overlap
    excludes them. In both a backward's dispatch is beside the experts' weight gradients
    [megatron-main, model_chunk_schedule_plan.py].
    """
    gathers = keys.dispatcher == int(Dispatcher.ALLGATHER)
    overlapped = (keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM) & ~gathers) | (
        keys.has(Feature.MOE_ALLGATHER_OVERLAP_COMM) & gathers
    )
    merged = keys.has(Feature.MOE_COMM_OVERLAP) & ~overlapped
    beside = keys.has(Feature.MOE_SHARED_EXPERT_OVERLAP)
    if workload.device_traits.merged_pairs_overlap_shared_experts:
        beside = beside | merged
    shared = np.where(beside, shared_s, 0.0)
    window, both = np.where(overlapped, moe_matmuls_s, shared), exchange.dispatch_s + exchange.combine_s
    alone_backward = np.minimum(exchange.combine_s, 2.0 * shared) + np.minimum(exchange.dispatch_s, moe_matmuls_s - shared_s)
    return (
        np.minimum(np.where(merged, exchange.dispatch_s, both), window),
        np.where(merged, alone_backward, np.minimum(both, 2.0 * window)),
    )


def _shared_expert_s(workload: Workload, keys: LayerKeys, device: Device) -> Floats:
    shape = workload.model.moe
    assert shape is not None
    width = shape.shared_expert_ffn_hidden_size
    return _mlp_matmuls(workload.model, width, keys, keys.tokens(workload.training), device)[0]


def _selective_recompute(
    keys: LayerKeys, matmuls: _Matmuls, attention_forward: Floats, vector: _Vector, permute: Floats
) -> Floats:
    """Compute that the recomputed modules repeat in the backward. ``[k]``"""
    again = keys.recomputes
    repeated = np.where(again(RecomputeModule.CORE_ATTN), attention_forward, 0.0)
    repeated = repeated + np.where(again(RecomputeModule.LAYERNORM), vector.norms, 0.0)
    repeated = repeated + np.where(again(RecomputeModule.MLA_UP_PROJ), matmuls.mla_up + vector.rope, 0.0)
    module = np.where(again(RecomputeModule.MLP), matmuls.mlp, 0.0)
    module = module + np.where(again(RecomputeModule.MOE), matmuls.moe + permute, 0.0)
    zero_memory = keys.has(Feature.MOE_ZERO_MEMORY) & (matmuls.moe > 0)
    activation = again(RecomputeModule.MLP_ACT) | zero_memory | (module > 0)
    return repeated + module + np.where(activation, vector.activation, 0.0)

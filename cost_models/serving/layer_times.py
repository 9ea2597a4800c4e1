"""Time of one inference layer on the busiest device of a stage, by part, before any overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import (
    ELEMENT_BYTES,
    PADDING_TILE_FRACTION,
    TILE_ROWS,
    achievable_flops_per_s,
    matmul_peak_flops_per_s,
)
from cost_models.layer.expert_communication import RoutedTokens, expert_combine, expert_dispatch
from cost_models.network.collectives import all_reduce_s, all_to_all_s
from cost_models.network.tiers import Network
from cost_models.serving.engine import CACHE_BYTES, WEIGHT_BYTES, ServingLayout, ServingWorkload
from cost_models.shapes.flops import attention_score_flops_per_token
from cost_models.shapes.parameters import GATED_MATRICES, PLAIN_MATRICES, LayerParameters, layer_parameters
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.workload import LayerKind, ModelShape, MoeShape
from documents.late_methods import dataclass
from hardware_profiles.schema import Wiring

Floats = NDArray[np.float64]

# Dependent kernels of a layer: input projections, core attention, output projection. Latent attention fuses its input projections
# and adds the projection out of the latent [cloudmatrix384, MLAProlog]. The MLP has two and the router one.
LATENT_KERNELS, GROUPED_KERNELS, MLP_KERNELS, ROUTER_KERNELS = 4, 3, 2, 1
HIDDEN_PASSES = 10  # reads and writes of the hidden state outside matmuls: two norms, two sums, their inputs and outputs
LEAST_QUERY_ROWS = 16  # rows of a matrix instruction; fewer heads a key fill it partly [asc-devkit-guide, Matmul tiling]
STATE_BYTES = 4  # bytes of an element of a recurrence's state, kept in FP32 [gated-delta-net]


@dataclass(frozen=True)
class Rates:
    """Rates of one device, or of a stream with a share of its cores; streams share the memory bandwidth."""

    linear_flops_per_s: float
    half_flops_per_s: float
    attention_flops_per_s: float
    read_bytes_per_s: float
    kernel_s: float


@dataclass(frozen=True)
class LayerTimes:
    """Seconds of the parts of one layer; arrays broadcast over batches."""

    projections_s: Floats
    attention_s: Floats
    tensor_parallel_s: Floats
    mlp_s: Floats  # dense, or shared experts and the router
    experts_s: Floats
    exchange_s: Floats

    @property
    def attention_side_s(self) -> Floats:
        """Seconds of projections, core attention and its tensor-parallel sum; elementwise."""
        return self.projections_s + self.attention_s + self.tensor_parallel_s

    @property
    def expert_side_s(self) -> Floats:
        """Seconds of exchange, experts and the MLP that runs with them; elementwise."""
        return self.mlp_s + self.experts_s + self.exchange_s


def rates(workload: ServingWorkload, cores: float = 1.0) -> Rates:
    """Rates of one device of the workload's cluster, with ``cores`` as the share of its matmul cores.

    Raises ``ValueError`` if the profile has no peak in the engine's precision.
    """
    profile, constants = workload.cluster.profile, workload.constants
    share = cores * constants.matmul_fraction / workload.cluster.time_factor
    return Rates(
        linear_flops_per_s=achievable_flops_per_s(profile, workload.engine.precision) * share,
        half_flops_per_s=achievable_flops_per_s(profile, "bf16") * share,
        attention_flops_per_s=matmul_peak_flops_per_s(profile, "bf16")
        * workload.attention_fraction
        * cores
        / workload.cluster.time_factor,
        read_bytes_per_s=profile.hbm_bytes_per_s * workload.read_fraction / workload.cluster.time_factor,
        kernel_s=constants.kernel_s * workload.cluster.time_factor,
    )


def linear_s(rows: Floats, weights: float, kernels: int, flops_per_s: float, weight_bytes: float, device: Rates) -> Floats:
    """Time of matmuls on ``rows``: the maximum of arithmetic and of reading the weights once; elementwise. [s]

    Parameters
    ----------
    weights
        Number of weights of all matmuls on the device.
    kernels
        Dependent kernels, each with its fixed time.
    flops_per_s
        Rate of a large matmul.
    """
    arithmetic_s = 2.0 * rows * weights / flops_per_s
    return np.maximum(arithmetic_s, weights * weight_bytes / device.read_bytes_per_s) + kernels * device.kernel_s


def cached_elements(model: ModelShape, *, local: bool = False) -> float:
    """Elements that a layer caches for a token, before sharding.

    They are the latent and its rotary key [deepseek-v2, section 2.1], or keys and values: 576 for DeepSeek-V3, 2 H_k d for
    grouped attention. A recurrence caches nothing that grows with tokens.
    """
    if model.linear_attention(local=local) is not None:
        return 0.0
    if model.mla is not None:
        return float(model.mla.kv_lora_rank + model.mla.qk_rope_head_dim)
    return 2.0 * model.num_query_groups * model.kv_channels


def decode_attention_s(
    workload: ServingWorkload, tp: int, requests: Floats, context_tokens: Floats, device: Rates, *, local: bool
) -> Floats:
    """Time of core attention of one decode step: the maximum of reading the cache and of arithmetic; elementwise. [s]

    Latent attention stays in the latent (absorbed): every head of a device reads the same d_l + d_r elements a token, at
    2 (2 d_l + d_r) FLOPs a head, row and token. Grouped attention has 4 d FLOPs; each key and value is read once for all its
    heads.

    Parameters
    ----------
    requests
        On the device.
    context_tokens
        Mean context of a request.
    """
    model, engine = workload.model, workload.engine
    rows, heads = engine.rows_per_request, model.num_attention_heads / tp
    linear = model.linear_attention(local=local)
    if linear is not None:
        moved = 2.0 * STATE_BYTES * linear.state_elements / tp
        return requests * moved / device.read_bytes_per_s + device.kernel_s
    seen = context_tokens
    if local and model.local_attention is not None:
        seen = np.minimum(context_tokens, model.local_attention.window)
    elements = cached_elements(model, local=local)
    if model.mla is not None:
        per_score = 2.0 * (2.0 * model.mla.kv_lora_rank + model.mla.qk_rope_head_dim)
        sharing = heads
    else:
        per_score = 4.0 * model.kv_channels
        held = max(model.num_query_groups / tp, 1.0)  # whole heads of keys and values, copied if tp exceeds their number
        elements *= held / model.num_query_groups
        sharing = heads / held
    filled = min(sharing * rows / LEAST_QUERY_ROWS, 1.0)
    arithmetic_s = requests * rows * heads * seen * per_score / (device.attention_flops_per_s * filled)
    read_s = requests * seen * elements * CACHE_BYTES[engine.cache_precision] / device.read_bytes_per_s
    core_s: Floats = np.maximum(arithmetic_s, read_s)
    return core_s


def prefill_attention_s(workload: ServingWorkload, tp: int, tokens: Floats, prompt_tokens: Floats, *, local: bool) -> Floats:
    """Time of core attention over prompts in training's fused kernel, R s / (s + s0); elementwise. [s]

    Parameters
    ----------
    tokens
        Of the attention replica.
    prompt_tokens
        Of one prompt.
    """
    constants, profile = workload.constants, workload.cluster.profile
    each = np.vectorize(lambda length: attention_score_flops_per_token(workload.model, length, local=local), otypes=[float])
    full_rate = matmul_peak_flops_per_s(profile, "bf16") * constants.attention_forward_fraction
    rate = full_rate * prompt_tokens / (prompt_tokens + constants.attention_half_length)
    attended_s: Floats = tokens * each(prompt_tokens) / tp / rate * workload.cluster.time_factor
    return attended_s


def mixed_linear_s(workload: ServingWorkload, rows: Floats, weights: float, kernels: int, device: Rates) -> Floats:
    """Time of linear layers in the engine's precision; in 8 bits with the cast of their inputs; elementwise. [s]

    ``weights`` and ``kernels`` as in ``linear_s``.
    """
    precision = workload.engine.precision
    time_s = linear_s(rows, weights, kernels, device.linear_flops_per_s, WEIGHT_BYTES[precision], device)
    if WEIGHT_BYTES[precision] < ELEMENT_BYTES:
        cast = kernels * rows * workload.model.hidden_size * workload.constants.quantise_bytes
        time_s = time_s + cast / device.read_bytes_per_s
    return time_s


def layer_times(
    workload: ServingWorkload,
    layout: ServingLayout,
    kind: LayerKind,
    requests: Floats,
    tokens: Floats,
    length: Floats,
    *,
    decode: bool,
    attention_cores: float = 1.0,
    expert_cores: float = 1.0,
) -> LayerTimes:
    """Time of one layer of a kind, on the busiest attention replica and on the busiest expert device.

    Parameters
    ----------
    requests
        Of the instance, in one stage at a time.
    tokens
        Of each request in this step.
    length
        Context length in decode, prompt length in prefill. [tokens]
    decode
        A decode step; otherwise prefill.
    attention_cores
        Share of a device's matmul cores for projections and attention.
    expert_cores
        Share for experts and the MLP.
    """
    model, tp = workload.model, layout.tp
    parts = layer_parameters(model, moe=kind.moe, local=kind.local)
    device = rates(workload, attention_cores)
    local_requests = np.maximum(requests / layout.dp, np.minimum(requests, 1.0))
    rows = local_requests * tokens
    weights = parts.attention_sharded / tp + parts.attention_replicated
    kernels = GROUPED_KERNELS if model.mla is None else LATENT_KERNELS
    projections = mixed_linear_s(workload, rows, weights, kernels, device)
    if decode:
        core = decode_attention_s(workload, tp, local_requests, length, device, local=kind.local)
    else:
        core = prefill_attention_s(workload, tp, rows, length, local=kind.local)
    projections = projections + _elementwise_s(workload, parts, rows, tp, device)
    reduced = all_reduce_s(rows * model.hidden_size * ELEMENT_BYTES, tp, 1, workload.network)
    beside = rates(workload, expert_cores)
    moe = _routed(workload, kind)
    if moe is None:
        mlp = mixed_linear_s(workload, rows, parts.mlp / tp, MLP_KERNELS, beside)
        zero = np.zeros_like(rows)
        return LayerTimes(projections, core, 2.0 * reduced, mlp, zero, zero)
    mlp = linear_s(rows, parts.router, ROUTER_KERNELS, beside.half_flops_per_s, ELEMENT_BYTES, beside)
    if parts.shared_experts and not workload.engine.shared_experts_apart:
        mlp = mlp + mixed_linear_s(workload, rows, parts.shared_experts / tp, MLP_KERNELS, beside)
    load = expert_load(workload, layout, moe, requests * tokens)
    experts = _experts_s(workload, layout, moe, parts, requests * tokens, rows, load, beside)
    if not decode:
        experts = experts + _sorting_s(workload, rows / (tp if layout.ep > 1 else 1) * moe.top_k * load, beside)
    if layout.ep == 1:
        return LayerTimes(projections, core, 2.0 * reduced, mlp, experts, np.zeros_like(rows))
    exchange = _exchange_s(workload, layout, moe, rows / tp, load, decode=decode)
    return LayerTimes(projections, core, reduced, mlp, experts, exchange)


def _elementwise_s(workload: ServingWorkload, parts: LayerParameters, rows: Floats, tp: int, device: Rates) -> Floats:
    """Time of memory traffic outside matmuls: hidden state, queries, keys and values, gated channels. [s]"""
    model = workload.model
    hidden = model.hidden_size
    heads = model.num_attention_heads
    if model.mla is None:
        attended = (2 * heads + 2 * model.num_query_groups) * model.kv_channels
    else:
        attended = heads * (2 * model.mla.qk_head_dim + 2 * model.mla.v_head_dim)
    matrices = GATED_MATRICES if model.gated_linear_unit else PLAIN_MATRICES
    gated = (parts.mlp + parts.shared_experts) / hidden
    if model.moe is not None:
        gated += parts.chosen_experts(model.moe) / hidden
    moved = HIDDEN_PASSES * hidden + (2 * attended + matrices / (matrices - 1) * gated) / tp
    return rows * ELEMENT_BYTES * moved / device.read_bytes_per_s


def _routed(workload: ServingWorkload, kind: LayerKind) -> MoeShape | None:
    """Experts that tokens are sent to. Shared experts on their own devices count among them."""
    moe = workload.model.moe if kind.moe else None
    if moe is None or not workload.engine.shared_experts_apart:
        return moe
    return replace(moe, top_k=moe.top_k + moe.num_shared_experts)


def expert_load(workload: ServingWorkload, layout: ServingLayout, moe: MoeShape, tokens: Floats) -> Floats:
    """Copies on the busiest expert device over the mean; elementwise.

    It is 1 if experts are balanced, or not spread over devices. ``tokens`` are those of the instance that pass one stage
    together.
    """
    parts = min(layout.ep, moe.num_experts)
    if workload.spread is None or parts == 1:
        return np.ones_like(tokens)
    return workload.spread.load_factor(parts, np.maximum(tokens * moe.top_k / parts, 1e-9))


def _experts_s(
    workload: ServingWorkload,
    layout: ServingLayout,
    moe: MoeShape,
    parts: LayerParameters,
    tokens: Floats,
    rows: Floats,
    load: Floats,
    device: Rates,
) -> Floats:
    """Time of the routed experts on the busiest device: reading every chosen expert, or multiplying its rows. [s]

    Parameters
    ----------
    tokens
        Of the instance.
    rows
        Of one attention replica.
    load
        Copies on the busiest device over the mean.
    """
    each = parts.experts / moe.num_experts
    if layout.ep == 1:  # sliced: every device has a slice of every expert, for its replica's tokens
        each, held, chosen_by, copies = each / layout.tp, float(moe.num_experts), rows, rows * moe.top_k
    else:
        held = max((moe.num_experts + layout.redundant_experts) / layout.ep, 1.0)
        chosen_by, copies = tokens, tokens * moe.top_k / layout.ep * load
    read = held * -np.expm1(chosen_by * np.log1p(-moe.top_k / moe.num_experts)) if moe.top_k < moe.num_experts else held
    padded = copies + PADDING_TILE_FRACTION * TILE_ROWS * read
    arithmetic_s = 2.0 * padded * each / device.linear_flops_per_s
    read_s = read * each * WEIGHT_BYTES[workload.engine.precision] / device.read_bytes_per_s
    return np.maximum(arithmetic_s, read_s) + MLP_KERNELS * device.kernel_s


def _sorting_s(workload: ServingWorkload, copies: Floats, device: Rates) -> Floats:
    """Time to sort copies by expert and back in prefill, as received and as returned in 16 bits. [s]

    In decode, copies already arrive sorted by expert [deepep].
    """
    moved = 2.0 * (WEIGHT_BYTES[workload.engine.precision] + ELEMENT_BYTES) * workload.model.hidden_size
    return copies * moved / device.read_bytes_per_s


def _exchange_s(
    workload: ServingWorkload, layout: ServingLayout, moe: MoeShape, sent: Floats, load: Floats, *, decode: bool
) -> Floats:
    """Time of dispatch in the engine's precision and combine in 16 bits. [s]

    Prefill sends one copy to each node that a token needs and forwards it inside. Decode sends straight to every chosen expert,
    to all peers at once [deepep].

    Parameters
    ----------
    sent
        Mean tokens of a device.
    load
        Copies on the busiest device over the mean.
    """
    width = workload.model.hidden_size
    dispatched = width * WEIGHT_BYTES[workload.engine.precision]
    if decode:
        puts = direct_puts(workload.network)
        copied = sent * moe.top_k * load
        return all_to_all_s(copied * dispatched, layout.ep, 1, puts) + all_to_all_s(
            copied * width * ELEMENT_BYTES, layout.ep, 1, puts
        )

    def routed(token_bytes: float) -> RoutedTokens:
        return RoutedTokens(
            Dispatcher.TWO_LEVEL, sent, token_bytes, layout.ep, 1, moe, workload.network, load, workload.spread, tier_streams=True
        )

    exchanged = expert_dispatch(routed(dispatched)).time_s + expert_combine(routed(width * ELEMENT_BYTES)).time_s
    return exchanged * workload.constants.expert_comm_factor


def direct_puts(network: Network) -> Network:
    """The network for kernels that write to all peers at once: one step of latency in a fabric [deepep]."""
    tiers = tuple(
        replace(tier, wiring=Wiring.MESH, link_bytes_per_s=tier.bandwidth_bytes_per_s) if tier.wiring is Wiring.FABRIC else tier
        for tier in network.tiers
    )
    return replace(network, tiers=tiers)

"""Activation bytes that one layer keeps from its forward for its backward, by tensor class."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import numpy as np

from cost_models.layer.adapters import adapter_output_bytes
from cost_models.layer.attention_bytes import attention_bytes_per_token, core_checkpoint_bytes, swapped_bytes_per_token
from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_factor, stream_bytes
from cost_models.layer.every_other_matmul import keeps_alternate
from cost_models.layer.expert_bytes import expert_copies, expert_output_bytes, gathered_shared_input_bytes
from cost_models.layer.expert_passes import CLAMPED_BYTES, clamps_experts
from cost_models.layer.expert_rows import drops_expert_inputs, gathers_shared_input, peak_expert_rows, routed_tokens
from cost_models.layer.gathered_inputs import gathered_input_bytes, kept_gathers
from cost_models.layer.gathered_keys import gathered_keys_bytes
from cost_models.layer.linear_attention import linear_attention_states_bytes
from cost_models.layer.linear_inputs import expert_input_bytes, kept_input_bytes, linear_input_bytes, own_recipe
from cost_models.layer.lone_norms import lone_norms
from cost_models.layer.sparse_attention import indexer_transient_bytes
from cost_models.layer.unfused_bytes import (
    expert_product_bytes,
    gate_copy_bytes,
    norm_input_bytes,
    routes_in_fp32,
    routing_bytes,
)
from cost_models.shapes.adapters import layer_rank_linears
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import MoeShape, Workload
from documents.late_methods import dataclass

# Bytes a score without fused attention: the softmax output; with dropout also its mask and its output. Models with a gated MLP
# (LLaMA and later) are trained without dropout, earlier ones with it [korthikanti2022, section 4.1; megatron-main].
SCORE_BYTES_SAVED, SCORE_DROPOUT_BYTES = 2, 3
ROUTER_INPUT_BYTES = 4  # a token and channel, in FP32 [megatron-0.12]
SCORE_GRADIENT_BYTES = 4  # during the backward: gradients of the scores before and after dropout
ALIBI_BYTES = 2  # each layer has its own tensor with the scaled position bias of its heads [mindspeed-attention]
ZERO_MEMORY_KEPT_FRACTION = 0.3  # fraction of expert internals that level0 keeps [mindspeed, moe-zero-memory.md]
CAST_WEIGHTS = "cast_weights"
DROPPED_BY = {  # tensor classes that one module computes again as a whole
    "attention_scores": RecomputeModule.CORE_ATTN,
    "mlp": RecomputeModule.MLP,
    "routed_experts": RecomputeModule.MOE,
    "shared_experts": RecomputeModule.MOE,
    "router": RecomputeModule.MOE,
}


@dataclass(frozen=True)
class LayerActivations:
    """Activation memory of one layer and micro batch in bytes; columns ``[k]``.

    ``saved`` is what the backward needs, by tensor class, and ``saved_bytes`` is its sum. ``input_bytes`` is what a fully
    recomputed layer keeps. ``unreduced_bytes`` is what the layer holds while it is computed again, with nothing recomputed
    inside. ``transient_bytes`` are buffers that live only while the layer runs. ``waiting``, by the same classes, is what a
    separate weight-gradient pass needs after the input gradient: the inputs of the linear layers, recomputed or not, and the
    gradients of their outputs [zero-bubble-code]. ``waiting_bytes`` is its sum.
    """

    saved: dict[str, Floats]
    saved_bytes: Floats
    waiting: dict[str, Floats]
    waiting_bytes: Floats
    input_bytes: Floats
    unreduced_bytes: Floats
    transient_bytes: Floats

    @property
    def sums(self) -> dict[str, Floats]:
        """The fields that are totals, by name: ``[k]`` in bytes. Tables by tensor class are left out."""
        return {f.name: value for f in fields(self) if not isinstance(value := getattr(self, f.name), dict)}


def router_input_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes that a router keeps for each channel of its input, in addition to the layer norm's output. ``[k]``

    A router in FP32 first kept an FP32 copy. Later ones keep the norm's output itself, in 16 bits whatever the linear layers
    keep, as routers in 16 bits do. They keep nothing if the norm is recomputed [megatron-0.19, moe_utils.py]. In Megatron-Core
    the copy stands for the norm's output, unless shared experts need that too (overlapped ones have gathered theirs) or the norm
    is recomputed [megatron-0.12, router.py]. torchtitan's newest keep both
    [torchtitan-2026.08, models/common/moe.py].
    """
    if workload.training.task.is_frozen:  # no gradient of the router's weight
        return np.zeros(len(keys.tp))
    traits, linear = workload.software_traits, linear_input_bytes(workload)
    again = keys.recomputes(RecomputeModule.LAYERNORM)
    kept = np.where(again | (linear == ELEMENT_BYTES), 0.0, float(ELEMENT_BYTES))
    if workload.software.has_since(traits.router_keeps_norm_output_year):
        return kept
    shape = workload.model.moe
    alone = shape is not None and shape.shared_expert_ffn_hidden_size == 0
    stands = traits.copied_router_input & (alone | gathers_shared_input(workload, keys))
    if workload.software.newest_layers:  # autocast; a compiled layer casts again
        return np.full(len(keys.tp), 0.0 if workload.software.torch_compile else ROUTER_INPUT_BYTES / element_factor(workload))
    copy = ROUTER_INPUT_BYTES - np.where(again, 0.0, linear * stands.astype(np.float64))
    return np.where(routes_in_fp32(workload, keys), copy, kept)


def layer_activations(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool = False) -> LayerActivations:
    """Activation memory of one layer of the given kind, for each key. Dense reference: [korthikanti2022, table 2].

    Notes
    -----
    Bytes an element: 2 in 16 bits, 4 in FP32, 1 for a linear layer's input in 8 bits. Without gate, rotary embedding and fused
    attention the saved classes sum to s b h (32 + 5 H s / h) / t. That is [korthikanti2022, eq. 4] without the masks of two
    dropouts.

    Left out: biases, masks of the dropouts behind attention and MLP, 1 / rms of the norms of the hidden state (4 B a token and
    norm), rotary tables of latent attention on GPUs, workspaces of kernels.
    """
    n, drop = keys.tokens(workload.training), keys.recomputes
    h, swapped = float(workload.model.hidden_size), keys.has(Feature.SWAP_ATTENTION)
    mlp = _experts(workload, keys, workload.model.moe) if moe and workload.model.moe is not None else _dense_mlp(workload, keys)
    attention, reduced = (each * n for each in attention_bytes_per_token(workload, keys, local=local))
    adapted = workload.training.task.is_frozen
    cast = _cast_weights(workload, keys, moe=moe, local=local)
    scores, score_gradients = _score_bytes(workload, keys, local=local)
    whole = {**_norm_bytes(workload, keys, moe=moe, local=local), "attention": attention, "attention_scores": scores, **mlp.kept}
    if adapted:
        whole["adapters"] = adapter_output_bytes(workload, keys, moe=moe)
    whole |= cast
    kept_attention = np.where(drop(RecomputeModule.MLA_UP_PROJ), reduced, attention)
    kept_attention = kept_attention + n * core_checkpoint_bytes(workload, keys, local=local)
    again = _recomputed_activations(workload, mlp), _dropped_outputs(workload, keys, moe=moe, local=local)
    entering, inside = (np.where(swapped, moved, 0.0) for moved in _swapped_bytes(workload, keys, local=local))
    saved = _saved(keys, whole | {"attention": kept_attention - inside}, again[0], again[1] + entering, mlp.expert_inputs)
    saved, repeated = _alternating(workload, keys, whole, saved, moe=moe)
    waiting = _waiting(workload, keys, whole, mlp, moe=moe, local=local) | ({"adapters": whole["adapters"]} if adapted else {})
    waiting |= {name: np.zeros_like(n) for name in cast}
    none = np.zeros_like(n)
    experts = sum((whole[name] for name in ("routed_experts", "shared_experts", "router")), none)
    recomputed = np.maximum(
        np.where(drop(RecomputeModule.MLP), whole["mlp"], 0.0), np.where(drop(RecomputeModule.MOE), experts, 0.0)
    )
    channels = channel_bytes(workload, keys)
    width = np.where(whole["mlp"] > 0, whole["mlp"] / np.maximum(channels.kept, 1.0), mlp.expert_width)
    core = np.where(drop(RecomputeModule.CORE_ATTN), scores, 0.0) + score_gradients + gathered_keys_bytes(workload, keys)
    gradient = np.maximum(channels.gradient * width, attention / 2.0 + core)
    kept_gathered = sum(kept_gathers(workload, keys, moe=moe, local=local), none) > 0
    gathered = np.where((keys.sequence_parallel != 0) & ~kept_gathered, ELEMENT_BYTES * h * n, 0.0)
    wide = element_factor(workload)
    return LayerActivations(
        saved={name: wide * kept for name, kept in saved.items()},
        saved_bytes=wide * sum(saved.values(), none),
        waiting={name: wide * kept for name, kept in waiting.items()},
        waiting_bytes=wide * sum(waiting.values(), none),
        input_bytes=wide * stream_bytes(workload) * h * between_blocks_tokens(workload, keys),
        unreduced_bytes=wide * sum(whole.values(), none),
        transient_bytes=wide * (gathered + mlp.copies + recomputed + repeated + gradient + 2.0 * (entering + inside)),
    )


def _cast_weights(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool) -> dict[str, Floats]:
    """Bytes of the copies of a layer's weights that its forward cast for the input gradients, as their own tensor class. ``[k]``

    Only stacks whose 8-bit layers cast anew in every forward have it; a copy that the forward alone needs is freed behind it
    [mindspeed, float8_tensor.py:180].
    """
    recipe = own_recipe(workload)
    if recipe is None:
        return {}
    held = sum(layer_rank_linears(workload.model, keys, moe=moe, local=local), np.zeros(len(keys.tp)))
    return {CAST_WEIGHTS: (1.0 + recipe.weight_scale_bytes) * held}


def between_blocks_tokens(workload: Workload, keys: LayerKeys) -> Floats:
    """Full-width tokens that a rank holds between the blocks: its share under sequence parallelism. ``[k]``

    tp-2d splits tokens over one side of its grid and channels over the other, so the share is 1 / tp in all [mindspeed, tp-2d].
    """
    tokens = keys.tokens(workload.training) / keys.tp
    return np.where(keys.has(Feature.TP_2D), tokens, keys.sharded_tokens(workload.training))


def _norm_bytes(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool) -> dict[str, Floats]:
    """Bytes of the inputs and outputs of a layer's norms, by tensor class. ``[k]``

    Outputs count as gathered where they are kept so.
    """
    norms, blocks = 2.0 if workload.model.sandwich_norm else 1.0, workload.model.num_blocks
    widened = workload.residual.wide_norm_inputs * (FP32_BYTES - ELEMENT_BYTES) / 2.0
    channel = blocks * (ELEMENT_BYTES * norms + widened)
    inputs = channel * float(workload.model.hidden_size) * between_blocks_tokens(workload, keys)
    gathered = gathered_input_bytes(workload, keys, moe=moe, local=local)
    return {"residual": inputs, "norm_output": sum(_norm_outputs(workload, keys, moe=moe), gathered)}


def _dropped_outputs(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool) -> Floats:
    """Bytes of the outputs of norms that recompute of norms drops, or that of the MLP which contains its norm. ``[k]``"""
    outputs, alone = _norm_outputs(workload, keys, moe=moe), lone_norms(workload, keys, moe=moe, local=local)
    gathers = kept_gathers(workload, keys, moe=moe, local=local)  # what was gathered of a norm stays, its own part within it
    first, second = (out * one * (1.0 - kept) for out, one, kept in zip(outputs, alone, gathers, strict=True))
    of_norms = np.where(keys.recomputes(RecomputeModule.LAYERNORM), first + second, 0.0)
    inside = keys.recomputes(RecomputeModule.MLP) & (not moe)
    return of_norms + np.where(inside, outputs[1] * (1.0 - alone[1]), 0.0)


def _norm_outputs(workload: Workload, keys: LayerKeys, *, moe: bool) -> tuple[Floats, Floats]:
    """Bytes of the outputs of the norms around attention, and of those around the MLP. ``[k]``

    A norm's output feeds a linear layer, except for the sandwich norms that follow one. What a norm without its kernel keeps
    beyond its input goes with its output if the norm is recomputed. Frozen weights leave the outputs that adapters need, which
    Megatron Bridge keeps gathered [megatron-bridge, peft/utils.py].
    """
    h, n_l = float(workload.model.hidden_size), between_blocks_tokens(workload, keys)
    outputs = (np.full(len(keys.tp), float(linear_input_bytes(workload))),) * 2  # before attention, before the MLP
    task, shape = workload.training.task, workload.model.moe if moe else None
    if task.is_frozen:
        common = shape is None or shape.shared_expert_ffn_hidden_size > 0
        adapted = (kept_input_bytes(workload, Target.QKV), common * kept_input_bytes(workload, Target.FC1))
        gathered = keys.tokens(workload.training) / n_l if workload.software_traits.splits_adapters else np.ones(len(keys.tp))
        outputs = (adapted[0] * gathered, adapted[1] * gathered)
    norms = 2.0 if workload.model.sandwich_norm else 1.0
    inside = norms * (norm_input_bytes(workload, keys) - ELEMENT_BYTES)
    first, second = (h * n_l * (output + ELEMENT_BYTES * (norms - 1.0) + inside) for output in outputs)
    return first * workload.model.has_mixer, second * workload.model.has_mlp


def _score_bytes(workload: Workload, keys: LayerKeys, *, local: bool) -> tuple[Floats, Floats]:
    """Bytes that attention keeps of its scores, and bytes of their gradients during the backward.

    A recurrence keeps no scores; its states count as the gradients. The buffers of an indexer count there too; its scores
    are counted with attention.
    """
    linear = workload.model.linear_attention(local=local)
    if linear is not None:
        states = linear_attention_states_bytes(linear) * keys.tokens(workload.training) / keys.tp
        return np.zeros(len(keys.tp)), states
    model, flash = workload.model, keys.has(Feature.FLASH_ATTENTION)
    tokens = keys.tokens(workload.training)
    pairs = tokens * workload.training.seq_length * model.num_attention_heads / keys.tp.astype(np.float64)
    each = SCORE_BYTES_SAVED + (0 if model.gated_linear_unit else SCORE_DROPOUT_BYTES)
    kept = np.where(flash, ALIBI_BYTES * pairs if model.alibi else 0.0, each * pairs)
    gradients = np.where(flash | (not workload.software_traits.eager), 0.0, SCORE_GRADIENT_BYTES * pairs)
    return kept, gradients if model.sparse_attention is None else gradients + indexer_transient_bytes(workload, keys)


class ChannelBytes(NamedTuple):
    """Bytes of one MLP channel and one token.

    ``kept`` is for the backward, and ``behind`` is its part from the activation function on: the copies inside it if no kernel
    fuses it, and its output. ``gradient`` belongs to the input of the activation function. ``waiting`` is what a separate
    weight-gradient pass needs: the output, and ``gradient`` in the precision of the matmul.
    """

    kept: Floats
    behind: Floats
    gradient: float
    waiting: float


def channel_bytes(workload: Workload, keys: LayerKeys, *, routed: bool = False) -> ChannelBytes:
    """Bytes of one channel of an MLP, or of routed experts: inputs of the activation function, its inner copies, its output."""
    output = expert_input_bytes(workload, Target.FC2) if routed else kept_input_bytes(workload, Target.FC2)
    ways = 2.0 if workload.model.gated_linear_unit else 1.0
    entering = np.where(keys.has(Feature.FP8_ACTIVATION_INPUT) & workload.model.gated_linear_unit, 1.0, ELEMENT_BYTES)
    behind = gate_copy_bytes(workload, keys) + output
    return ChannelBytes(ways * entering + behind, behind, ways * ELEMENT_BYTES, ways * output + output)


@dataclass(frozen=True)
class _Mlp:
    """Bytes of one layer's MLP or experts with nothing recomputed, ``[k]``.

    ``kept`` is by tensor class, and ``act`` is the part behind the activation function. ``copies`` are token copies that live
    during the exchange. ``waiting`` is what a separate weight-gradient pass needs, without the gradient of the block's output.
    ``expert_width`` is routed rows times channels, and ``expert_inputs`` are the inputs of the activation function there.
    """

    kept: dict[str, Floats]
    act: dict[str, Floats]
    copies: Floats
    waiting: dict[str, Floats]
    expert_width: Floats
    expert_inputs: Floats


def _dense_mlp(workload: Workload, keys: LayerKeys) -> _Mlp:
    """MLP of a dense layer: the inputs of its activation function, and the input of its second matmul."""
    n, t = keys.tokens(workload.training), keys.tp.astype(np.float64)
    none = np.zeros_like(n)
    width, channels = workload.model.ffn_hidden_size * n / t, channel_bytes(workload, keys)
    kept = {"mlp": channels.kept * width, "routed_experts": none, "shared_experts": none, "router": none}
    waiting = {"mlp": channels.waiting * width, "routed_experts": none, "shared_experts": none}
    return _Mlp(kept, {"mlp": channels.behind * width}, none, waiting, none, none)


def _experts(workload: Workload, keys: LayerKeys, shape: MoeShape) -> _Mlp:
    """Activation bytes of routed and shared experts, in the MoE layer whose busiest rank receives the most tokens."""
    training, h = workload.training, float(workload.model.hidden_size)
    n, t = keys.tokens(training), keys.tp.astype(np.float64)
    channels, linear = channel_bytes(workload, keys, routed=True), expert_input_bytes(workload, Target.FC1)
    common = channel_bytes(workload, keys)  # of shared experts, which are a dense MLP
    spare = 0 if workload.software.newest_layers else workload.software_traits.spare_expert_rows
    rows = peak_expert_rows(keys, shape, training) + spare * shape.num_experts / keys.ep
    width, shared_width = rows * shape.expert_ffn_hidden_size / keys.etp, shape.shared_expert_ffn_hidden_size * n / t
    clamped = CLAMPED_BYTES * width * (clamps_experts(workload.model) and workload.software_traits.eager)
    inside = clamped + expert_product_bytes(workload, keys) * width
    outputs = expert_output_bytes(workload, keys, shape)
    gathered = gathered_shared_input_bytes(workload, keys)
    kept = {
        "mlp": np.zeros_like(n),
        "routed_experts": linear * h * rows + channels.kept * width + inside + outputs,
        "shared_experts": common.kept * shared_width + gathered,
        "router": (router_input_bytes(workload, keys) * h + routing_bytes(workload, keys)) * routed_tokens(workload, keys),
    }
    act = {"routed_experts": channels.behind * width + inside, "shared_experts": common.behind * shared_width}
    waiting = {
        "mlp": np.zeros_like(n),
        "routed_experts": 2.0 * linear * h * rows + channels.waiting * width,
        "shared_experts": common.waiting * shared_width + gathered,
    }
    entering = (channels.kept - channels.behind) * width
    return _Mlp(kept, act, expert_copies(workload, keys, shape), waiting, width, entering)


def _recomputed_activations(workload: Workload, mlp: _Mlp) -> dict[str, Floats]:
    """Bytes from the activation function on that its recompute drops, by tensor class. ``[k]``"""
    routed = workload.software_traits.recomputes_routed_activations
    return {name: act for name, act in mlp.act.items() if name == "routed_experts" or not routed}


def _saved(
    keys: LayerKeys, whole: dict[str, Floats], act: dict[str, Floats], norm_outputs: Floats, expert_inputs: Floats
) -> dict[str, Floats]:
    """Bytes kept for the backward by tensor class, without the tensors that the key recomputes. ``[k]``

    Parameters
    ----------
    whole : ``[k]``, bytes
        With nothing recomputed, except that attention is already as the key keeps it.
    act : ``[k]``, bytes
        The part that recompute of activation functions drops.
    norm_outputs : ``[k]``, bytes
        Outputs of norms that are computed again or swapped.
    expert_inputs : ``[k]``, bytes
        All that routed experts keep where ``drops_expert_inputs``.
    """
    zero_memory = np.where(keys.has(Feature.MOE_ZERO_MEMORY), ZERO_MEMORY_KEPT_FRACTION, 1.0)
    saved = {}
    for name, kept in whole.items():
        if name in act:
            kept = kept - np.where(keys.recomputes(RecomputeModule.MLP_ACT), act[name], 0.0)
        if name == "norm_output":
            kept = kept - norm_outputs
        if name in ("routed_experts", "shared_experts"):
            kept = zero_memory * kept
        if name == "routed_experts":
            kept = np.where(drops_expert_inputs(keys), expert_inputs, kept)
        saved[name] = np.where(keys.recomputes(DROPPED_BY[name]), 0.0, kept) if name in DROPPED_BY else kept
    return saved


def _alternating(
    workload: Workload, keys: LayerKeys, whole: dict[str, Floats], saved: dict[str, Floats], *, moe: bool
) -> tuple[dict[str, Floats], Floats]:
    """What a layer keeps, and what its backward makes again, where every other matmul is recomputed; bytes ``[k]``.

    Parameters
    ----------
    whole, saved : ``[k]``, bytes
        With nothing recomputed, and as the key keeps them otherwise.
    """
    none, again = np.zeros(len(keys.tp)), keys.recomputes(RecomputeModule.EVERY_OTHER_MATMUL)
    if not again.any():
        return saved, none
    kept, beside = keeps_alternate(workload, keys, moe=moe)
    kept["attention_scores"] = whole["attention_scores"]
    repeated = sum(whole.values(), none) - (sum(kept.values(), none) - beside)
    return {name: np.where(again, kept.get(name, none), held) for name, held in saved.items()}, np.where(again, repeated, 0.0)


def _waiting(
    workload: Workload, keys: LayerKeys, whole: dict[str, Floats], mlp: _Mlp, *, moe: bool, local: bool
) -> dict[str, Floats]:
    """Bytes that a separate weight-gradient pass needs, by tensor class. ``[k]``

    These are the inputs of linear layers and the gradients of their outputs; a router's weight gradient does not wait
    [mindspeed-fb-overlap, weight_grad_store.py]. Latent attention and recurrences are taken to need all that they keep. Every
    tensor-parallel rank holds the whole gradient of a block's output.
    Transformer Engine keeps gradients in the precision in which it multiplies them, also in 8 bits
    [transformer-engine, linear.py].

    Parameters
    ----------
    whole : ``[k]``, bytes
        With nothing recomputed.
    """
    n, h, linear = keys.tokens(workload.training), float(workload.model.hidden_size), linear_input_bytes(workload)
    none, block_gradient = np.zeros_like(n), linear * h * n
    model, shape = workload.model, workload.model.moe if moe else None
    common = model.has_mlp and (shape is None or bool(shape.shared_expert_ffn_hidden_size))
    norms = float(model.has_mixer) + common
    attention = whole["attention"] * linear / ELEMENT_BYTES
    if model.mla is None and model.linear_attention(local=local) is None:
        gates = 2.0 if model.attention_output_gate else 1.0
        heads = (1.0 + gates) * model.num_attention_heads + 2.0 * key_value_heads(model, keys)
        attention = linear * model.kv_channels * heads * n / keys.tp
    return {
        "residual": none,
        "norm_output": norms * linear * h * between_blocks_tokens(workload, keys)
        + gathered_input_bytes(workload, keys, moe=moe, local=local),
        "attention": attention + model.has_mixer * block_gradient,
        "attention_scores": none,
        "mlp": mlp.waiting["mlp"] + model.has_mlp * block_gradient if "mlp" in mlp.act else none,
        "routed_experts": mlp.waiting["routed_experts"],
        "shared_experts": np.where(whole["shared_experts"] > 0, mlp.waiting["shared_experts"] + block_gradient, 0.0),
        "router": none,
    }


def _swapped_bytes(workload: Workload, keys: LayerKeys, *, local: bool) -> tuple[Floats, Floats]:
    """Bytes that ``swap_attention`` moves of a layer: the norm's output that enters attention, and tensors inside. ``[k]``

    A norm that is computed again has no output to move. A compiled graph moves the tensors inside alone.
    """
    n_l, kept = between_blocks_tokens(workload, keys), ~keys.recomputes(RecomputeModule.LAYERNORM) & workload.model.has_mixer
    entering = np.where(
        kept & workload.software_traits.eager, linear_input_bytes(workload) * workload.model.hidden_size * n_l, 0.0
    )
    return entering, swapped_bytes_per_token(workload, keys, local=local) * keys.tokens(workload.training)


def activation_swap_s(workload: Workload, keys: LayerKeys, *, local: bool = False) -> Floats:
    """Time to move one layer's attention tensors to the host in the forward, or back in the backward. [s] ``[k]``

    Two layers' tensors stay on the device while they are moved [mindspeed, swap_attention.md]. The time is for one pass of one
    layer and micro batch, before compute hides it. It is 0 if nothing is swapped.
    """
    moved = sum(_swapped_bytes(workload, keys, local=local))
    return np.where(keys.has(Feature.SWAP_ATTENTION), moved / workload.cluster.profile.host_link_bytes_per_s, 0.0)

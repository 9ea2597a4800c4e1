"""Bytes and recompute time of every tensor that a layer keeps, and the cost of a layer under a choice of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cost_models.layer.activations import (
    LayerActivations,
    channel_bytes,
    layer_activations,
)
from cost_models.layer.attention_bytes import (
    attention_bytes_per_token,
    head_norm_bytes,
    kept_groups,
    latent_ranks,
    output_copy_bytes,
    statistics_bytes,
)
from cost_models.layer.compute import ELEMENT_BYTES, Device, state_s
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.expert_bytes import expert_output_bytes, gathered_shared_input_bytes
from cost_models.layer.expert_rows import peak_expert_rows
from cost_models.layer.gathered_inputs import gathered_input_bytes
from cost_models.layer.host import blocked_s, host_again_s
from cost_models.layer.linear_inputs import expert_input_bytes
from cost_models.layer.modules import ROUTER_BYTES, LayerCompute, layer_compute
from cost_models.layer.overlap import host_copy_stretch, layer_comm, repeated_gather_s
from cost_models.layer.unfused_bytes import expert_product_bytes
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.tensors import TENSORS, Tensor, TensorChoice
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass


class Copies(NamedTuple):
    """Seconds of copies to the host in a forward and back in a backward.

    The exposed part, the contention of the hidden part with compute, and the hidden part of both passes together.
    """

    exposed_forward_s: Floats
    exposed_backward_s: Floats
    contention_forward_s: Floats
    contention_backward_s: Floats
    masked_s: Floats

    @property
    def forward_s(self) -> Floats:
        """Seconds that the copies add to a forward; elementwise."""
        return self.exposed_forward_s + self.contention_forward_s

    @property
    def backward_s(self) -> Floats:
        """Seconds that the copies add to a backward; elementwise."""
        return self.exposed_backward_s + self.contention_backward_s


@dataclass(frozen=True)
class TensorCosts:
    """Costs of the tensors of one kind of layer and one micro batch, columns ``[k]``.

    ``bytes`` is what the layer keeps of every tensor; it sums to all that the layer keeps. ``copied_again`` are bytes of other
    tensors that are copied beside one that is swapped. ``again_s`` is the recompute time of each tensor that can be recomputed,
    ``host_again_s`` what the host takes to dispatch it. Queries, keys and values share ``rope_s``, which either of them needs.
    ``spare_s`` is how far the host is ahead of the device at the end of a backward, below 0 where the device waits.
    ``window_*_s`` is compute of a pass that can hide copies between device and host. ``stretch`` is the slowdown for each hidden
    second.
    """

    bytes: dict[Tensor, Floats]
    copied_again: dict[Tensor, Floats]
    again_s: dict[Tensor, Floats]
    host_again_s: dict[Tensor, Floats]
    spare_s: Floats
    rope_s: Floats
    window_forward_s: Floats
    window_backward_s: Floats
    host_bytes_per_s: float
    stretch: float

    def copied_bytes(self, tensors: Tensor) -> Floats:
        """Bytes that are copied to the host and back if the given tensors are swapped. ``[k]``"""
        again = (copied for tensor, copied in self.copied_again.items() if tensor in tensors)
        total: Floats = sum(again, self.bytes_of(tensors))
        return total

    def recomputed_s(self, tensors: Tensor) -> Floats:
        """Time to recompute the given tensors in a backward; tensors that the layer lacks take none. [s] ``[k]``"""
        parts = [seconds for tensor, seconds in self.again_s.items() if tensor in tensors]
        rotated = any(tensor in self.again_s and tensor in tensors for tensor in ROTATED)
        total: Floats = sum(parts, np.zeros_like(self.rope_s)) + (self.rope_s if rotated else 0.0)
        return total

    def dispatched_s(self, tensors: Tensor) -> Floats:
        """Host time to dispatch the recompute of the given tensors. [s] ``[k]``"""
        parts = (seconds for tensor, seconds in self.host_again_s.items() if tensor in tensors)
        total: Floats = sum(parts, np.zeros_like(self.rope_s))
        return total

    def host_wait_s(self, device_s: Floats, dispatched_s: Floats) -> Floats:
        """How much longer the device waits for the host in a backward with more of both; below 0 if less. [s] ``[k]``"""
        longer: Floats = np.maximum(dispatched_s - self.spare_s - device_s, 0.0) - np.maximum(-self.spare_s, 0.0)
        return longer

    def added_s(self, choice: TensorChoice) -> Floats:
        """What a choice adds to both passes of one layer and micro batch. [s] ``[k]``"""
        copies = self.copies(self.copied_bytes(choice.swap))
        device_s = self.recomputed_s(choice.recompute) + copies.backward_s
        return copies.forward_s + device_s + self.host_wait_s(device_s, self.dispatched_s(choice.recompute))

    def bytes_of(self, tensors: Tensor) -> Floats:
        """Bytes that a layer keeps of the given tensors; tensors that it lacks count 0. ``[k]``"""
        total: Floats = sum((kept for tensor, kept in self.bytes.items() if tensor in tensors), np.zeros_like(self.rope_s))
        return total

    def copies(self, moved_bytes: Floats) -> Copies:
        """Time to copy ``moved_bytes`` of one layer and micro batch to the host, and back."""
        seconds = moved_bytes / self.host_bytes_per_s
        behind_forward, behind_backward = np.minimum(seconds, self.window_forward_s), np.minimum(seconds, self.window_backward_s)
        return Copies(
            exposed_forward_s=seconds - behind_forward,
            exposed_backward_s=seconds - behind_backward,
            contention_forward_s=self.stretch * behind_forward,
            contention_backward_s=self.stretch * behind_backward,
            masked_s=behind_forward + behind_backward,
        )


ROTATED = (Tensor.QUERIES, Tensor.KEYS_VALUES, Tensor.QUERY_KEY_VALUE)


def tensor_costs(
    workload: Workload, keys: LayerKeys, device: Device, network: Network, *, moe: bool, local: bool = False
) -> TensorCosts:
    """Bytes and recompute time of every tensor that one layer of the given kind keeps, with no swap in the keys.

    Tensors of a module that the keys recompute are not kept, and no choice is made of them.

    The backward needs every dropped tensor again, so the operation that makes it runs once whatever else is dropped. Only rotary
    positions serve several tensors. Collectives that gather a linear layer's input for its weight gradient also serve its
    recompute. The exchange of tokens runs once more, and nothing hides it.

    Notes
    -----
    Bytes beyond the tensors that are known here count with the last tensor of their class, so that nothing is lost.
    """
    compute = layer_compute(workload, keys, device, moe=moe, local=local)
    comm, exchange = layer_comm(workload, keys, network, compute, device.constants, moe=moe, local=local)
    whole = replace(keys, recompute_modules=np.zeros_like(keys.recompute_modules))
    kept = layer_activations(workload, whole, moe=moe, local=local).saved
    known = _attention_bytes(workload, whole, kept, moe=moe, local=local)
    known |= _expert_bytes(workload, whole, kept) if moe else _mlp_bytes(workload, whole, kept)
    kept_here = {each: np.where(keys.recomputes(TENSORS[each].module), 0.0, held) for each, held in known.items()}
    present = {tensor: each for tensor, each in kept_here.items() if (each > 0.0).any()}
    ring_s = comm.cp_comm.forward_s + device.constants.hidden_stretch_fraction * comm.cp_comm.behind_forward_s
    again = _attention_again_s(workload, compute, ring_s, present, local=local)
    again[Tensor.GATHERED_INPUT] = repeated_gather_s(workload, keys, network, compute, device.constants, moe=moe, local=local)
    again |= _experts_again_s(workload, keys, device, compute, exchange.dispatch_s, known) if moe else _mlp_again_s(compute)
    again = {tensor: seconds for tensor, seconds in again.items() if tensor in present}
    behind_forward = comm.cp_comm.behind_forward_s + comm.ep_comm.behind_forward_s + comm.weight_gather.behind_forward_s
    behind_backward = comm.cp_comm.behind_backward_s + comm.ep_comm.behind_backward_s + comm.weight_gather.behind_backward_s
    return TensorCosts(
        bytes=present,
        copied_again=_copied_again(workload, present),
        again_s=again,
        host_again_s=host_again_s(workload, keys, device.constants, list(again), moe=moe, local=local),
        spare_s=_spare_s(workload, keys, device, network, moe=moe, local=local),
        rope_s=compute.vector.rope,
        window_forward_s=np.maximum(compute.forward - behind_forward, 0.0),
        window_backward_s=np.maximum(compute.backward - behind_backward, 0.0),
        host_bytes_per_s=workload.cluster.profile.host_link_bytes_per_s,
        stretch=host_copy_stretch(workload),
    )


def _copied_again(workload: Workload, present: dict[Tensor, Floats]) -> dict[Tensor, Floats]:
    """Bytes of other tensors that are copied beside one.

    Where each group of operators copies what it saves, the output of attention is copied with queries, keys and values, since
    its backward reads it, and again with the projection behind it [megatron-0.19, fine_grained_activation_offload.py].
    """
    if not workload.software_traits.copies_by_group or Tensor.ATTENTION_OUTPUT not in present:
        return {}
    read = [each for each in (Tensor.QUERY_KEY_VALUE, Tensor.KEYS_VALUES) if each in present]
    return dict.fromkeys(read, present[Tensor.ATTENTION_OUTPUT])


def _spare_s(workload: Workload, keys: LayerKeys, device: Device, network: Network, *, moe: bool, local: bool) -> Floats:
    """How far the host is ahead of the device at the end of a backward that repeats no tensor. [s] ``[k]``"""
    whole = layer_costs(workload, keys, device, network, moe=moe, local=local)
    waits = whole.backward["host"] + whole.backward["size_synchronisation"]
    dispatch = whole.host["backward"] - whole.backward["size_synchronisation"]
    spare: Floats = whole.backward_s - waits + 2.0 * blocked_s(workload) - dispatch
    return spare


def _attention_bytes(
    workload: Workload, keys: LayerKeys, kept: dict[str, Floats], *, moe: bool, local: bool
) -> dict[Tensor, Floats]:
    """Kept bytes of the residual, the norms and the attention, by tensor."""
    gathered = gathered_input_bytes(workload, keys, moe=moe, local=local)
    model, n, t = workload.model, keys.tokens(workload.training), keys.tp.astype(np.float64)
    heads = model.num_attention_heads
    parts = {
        Tensor.BLOCK_INPUT: kept["residual"],
        Tensor.NORM_OUTPUT: kept["norm_output"] - gathered,
        Tensor.GATHERED_INPUT: gathered,
        Tensor.ATTENTION_SCORES: kept["attention_scores"],
    }
    statistics, copied = statistics_bytes(workload, keys), output_copy_bytes(workload, keys)
    if model.linear_attention(local=local) is not None or model.sparse_attention is not None:
        own: dict[Tensor, Floats] = {}
    elif model.mla is not None:
        mla, without_up = model.mla, attention_bytes_per_token(workload, keys, local=local)[1]
        queries = ELEMENT_BYTES * (heads * mla.qk_head_dim / t + mla.q_lora_rank / latent_ranks(workload, keys))
        output = (ELEMENT_BYTES * heads * mla.v_head_dim + statistics) / t
        copies = copied * heads * mla.v_head_dim / t
        own = {
            Tensor.QUERIES: queries * n,
            Tensor.KEYS_VALUES: kept["attention"] - (without_up + queries) * n,
            Tensor.ATTENTION_OUTPUT: output * n,
            Tensor.LATENTS: (without_up - output - copies) * n,
        }
    else:
        wide = model.kv_channels * ELEMENT_BYTES / t
        groups = kept_groups(workload, keys)
        gates = copied / ELEMENT_BYTES + (2.0 if model.attention_output_gate else 0.0)
        projected, output = wide * (heads + 2.0 * groups), wide * heads + statistics / t
        apart = projected + output + wide * heads * gates + head_norm_bytes(workload, keys)
        rotary = np.maximum(kept["attention"] / n - apart, 0.0)
        rotary = np.where(rotary > ROUNDING * projected, rotary, 0.0)
        own = {
            Tensor.ROTARY_INPUTS: rotary * n,
            Tensor.QUERY_KEY_VALUE: projected * n,
            Tensor.ATTENTION_OUTPUT: output * n,
        }
    rest = kept["attention"] - sum(own.values(), np.zeros_like(n))
    own[Tensor.ATTENTION_REST] = np.where(rest > ROUNDING * kept["attention"], rest, 0.0)
    return parts | own


ROUNDING = 1e-9  # smaller fractions of a sum count as 0


def _mlp_bytes(workload: Workload, keys: LayerKeys, kept: dict[str, Floats]) -> dict[Tensor, Floats]:
    """Kept bytes before and after a dense MLP's activation function."""
    channels = channel_bytes(workload, keys)
    behind = kept["mlp"] * channels.behind / channels.kept
    return {Tensor.MLP_HIDDEN: kept["mlp"] - behind, Tensor.MLP_ACTIVATION: behind}


def _expert_bytes(workload: Workload, keys: LayerKeys, kept: dict[str, Floats]) -> dict[Tensor, Floats]:
    """Kept bytes of router, routed and shared experts, by tensor."""
    shape, channels = workload.model.moe, channel_bytes(workload, keys, routed=True)
    common = channel_bytes(workload, keys)
    assert shape is not None
    rows = peak_expert_rows(keys, shape, workload.training)
    tokens = expert_input_bytes(workload, Target.FC1) * workload.model.hidden_size * rows
    outputs = expert_output_bytes(workload, keys, shape)
    width = rows * shape.expert_ffn_hidden_size / keys.etp
    behind = width * (channels.behind + expert_product_bytes(workload, keys))
    inside = kept["shared_experts"] - gathered_shared_input_bytes(workload, keys)
    shared = inside * common.behind / common.kept
    return {
        Tensor.ROUTER: kept["router"],
        Tensor.EXPERT_INPUT: tokens,
        Tensor.EXPERT_HIDDEN: kept["routed_experts"] - tokens - outputs - behind,
        Tensor.EXPERT_ACTIVATION: behind,
        Tensor.EXPERT_OUTPUT: outputs,
        Tensor.SHARED_HIDDEN: kept["shared_experts"] - shared,
        Tensor.SHARED_ACTIVATION: shared,
    }


def _attention_again_s(
    workload: Workload, compute: LayerCompute, ring_s: Floats, present: dict[Tensor, Floats], *, local: bool
) -> dict[Tensor, Floats]:
    """Recompute time of the norms and the attention. ``ring_s`` is its context-parallel exchange in a forward."""
    matmuls = compute.matmuls
    again = {Tensor.NORM_OUTPUT: compute.vector.norms}
    if workload.model.linear_attention(local=local) is not None or workload.model.sparse_attention is not None:
        return again
    core = compute.attention_forward + ring_s
    again |= {Tensor.ATTENTION_OUTPUT: core, Tensor.ATTENTION_SCORES: core}
    if workload.model.mla is not None:
        mla = workload.model.mla
        values = matmuls.mla_up - matmuls.mla_query_up if mla.q_lora_rank else matmuls.mla_up
        return again | {Tensor.QUERIES: matmuls.mla_query_up, Tensor.KEYS_VALUES: values}
    # If no kernel keeps its inputs, the projection itself comes before the rotary positions.
    is_kept = Tensor.ROTARY_INPUTS in present
    again[Tensor.QUERY_KEY_VALUE] = np.zeros_like(core) if is_kept else matmuls.entering
    return again | {Tensor.ROTARY_INPUTS: matmuls.entering}


def _mlp_again_s(compute: LayerCompute) -> dict[Tensor, Floats]:
    """Recompute time of a dense MLP."""
    first = compute.matmuls.mlp - compute.matmuls.last
    return {Tensor.MLP_HIDDEN: first, Tensor.MLP_ACTIVATION: compute.vector.activation}


def _experts_again_s(
    workload: Workload,
    keys: LayerKeys,
    device: Device,
    compute: LayerCompute,
    dispatch_s: Floats,
    known: dict[Tensor, Floats],
) -> dict[Tensor, Floats]:
    """Recompute time of router, routed and shared experts."""
    matmuls, shape = compute.matmuls, workload.model.moe
    assert shape is not None
    second = matmuls.last - matmuls.shared_last
    logits = state_s(ROUTER_BYTES * shape.num_experts * keys.sharded_tokens(workload.training), device)
    routed, shared = known[Tensor.EXPERT_ACTIVATION], known[Tensor.SHARED_ACTIVATION]
    share = routed / (routed + shared)
    return {
        Tensor.ROUTER: matmuls.router + logits,
        Tensor.EXPERT_INPUT: dispatch_s + compute.permute,
        Tensor.EXPERT_HIDDEN: matmuls.moe - matmuls.router - compute.shared_expert - second,
        Tensor.EXPERT_ACTIVATION: share * compute.vector.activation,
        Tensor.EXPERT_OUTPUT: second,
        Tensor.SHARED_HIDDEN: compute.shared_expert - matmuls.shared_last,
        Tensor.SHARED_ACTIVATION: (1.0 - share) * compute.vector.activation,
    }


def working_bytes(again_bytes: Floats, moved_bytes: Floats) -> Floats:
    """Bytes that a layer's backward holds of tensors that are not kept; elementwise.

    They are all recomputed tensors of one layer, and the copied tensors of two layers: the next layer's copies arrive while this
    layer's are in use [mindspeed, swap_attention.md].
    """
    return again_bytes + 2.0 * moved_bytes


def chosen_activations(whole: LayerActivations, tensors: TensorCosts, choice: TensorChoice) -> LayerActivations:
    """Activation memory of a layer under a choice of tensors. ``whole`` is without recompute or swap; its table may be empty."""
    gone = choice.recompute | choice.swap
    saved = dict(whole.saved)
    for tensor in gone:
        if saved and tensor in tensors.bytes:
            name = TENSORS[tensor].saved_as
            saved[name] = np.maximum(saved[name] - tensors.bytes[tensor], 0.0)
    working = working_bytes(tensors.bytes_of(choice.recompute), tensors.copied_bytes(choice.swap))
    return replace(
        whole,
        saved=saved,
        saved_bytes=np.maximum(whole.saved_bytes - tensors.bytes_of(gone), 0.0),
        transient_bytes=whole.transient_bytes + working,
    )


def chosen_costs(whole: LayerCosts, tensors: TensorCosts, choice: TensorChoice) -> LayerCosts:
    """Time of a layer under a choice of tensors. ``whole`` is without swap; its tables may be empty."""
    again, dispatched = tensors.recomputed_s(choice.recompute), tensors.dispatched_s(choice.recompute)
    copies = tensors.copies(tensors.copied_bytes(choice.swap))
    device_s = copies.backward_s + again
    wait_s = tensors.host_wait_s(device_s, dispatched)

    def longer(table: dict[str, Floats], **more: Floats) -> dict[str, Floats]:
        return {name: part + more[name] if name in more else part for name, part in table.items()}

    return replace(
        whole,
        forward=longer(whole.forward, activation_swap=copies.exposed_forward_s, contention=copies.contention_forward_s),
        backward=longer(
            whole.backward,
            activation_swap=copies.exposed_backward_s,
            contention=copies.contention_backward_s,
            recompute=again,
            host=wait_s,
        ),
        masked=longer(whole.masked, activation_swap=copies.masked_s),
        forward_s=whole.forward_s + copies.forward_s,
        backward_s=whole.backward_s + device_s + wait_s,
        host=longer(whole.host, backward=dispatched),
        pieces=longer(whole.pieces, attention=copies.forward_s, attention_back=device_s),
    )

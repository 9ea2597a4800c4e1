"""What every tensor that a layer keeps weighs, what it takes to compute it again, and a layer under a choice among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cost_models.layer.activations import (
    LayerActivations,
    attention_bytes_per_token,
    channel_bytes,
    keeps_expert_outputs,
    layer_activations,
    linear_input_bytes,
)
from cost_models.layer.compute import ELEMENT_BYTES, Device, vector_s
from cost_models.layer.costs import LayerCosts
from cost_models.layer.expert_rows import peak_expert_rows
from cost_models.layer.modules import ROUTER_BYTES, LayerCompute, layer_compute
from cost_models.layer.overlap import host_copy_stretch, layer_comm
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats, LayerKeys, key_value_heads
from cost_models.shapes.tensors import TENSORS, Tensor, TensorChoice
from cost_models.shapes.workload import Workload


class Copies(NamedTuple):
    """Copies to the host in a forward and back in a backward, columns in seconds.

    What shows of them, how much longer compute takes beside what does not, and what hides in both passes together.
    """

    exposed_forward_s: Floats
    exposed_backward_s: Floats
    contention_forward_s: Floats
    contention_backward_s: Floats
    masked_s: Floats

    @property
    def forward_s(self) -> Floats:
        """By which a forward is longer."""
        return self.exposed_forward_s + self.contention_forward_s

    @property
    def backward_s(self) -> Floats:
        """By which a backward is longer."""
        return self.exposed_backward_s + self.contention_backward_s


@dataclass(frozen=True)
class TensorCosts:
    """Of one kind of layer and one micro batch, columns ``[k]``.

    ``bytes`` of every tensor that the layer keeps, which sum to what it keeps; ``again_s`` to compute it once more in the
    backward, of those that can be. Queries, keys and values share ``rope_s``, which either of them takes. ``window_*_s`` is
    compute of a pass that hides copies between device and host, ``stretch`` what a hidden second costs it.
    """

    bytes: dict[Tensor, Floats]
    again_s: dict[Tensor, Floats]
    rope_s: Floats
    window_forward_s: Floats
    window_backward_s: Floats
    host_bytes_per_s: float
    stretch: float

    def recomputed_s(self, tensors: Tensor) -> Floats:
        """Compute that a backward repeats for them.

        Parameters
        ----------
        tensors : Tensor
            What is computed again; what the layer does not have takes nothing.

        Returns
        -------
        Floats, ``[k]``, seconds
        """
        parts = [seconds for tensor, seconds in self.again_s.items() if tensor in tensors]
        rotated = any(tensor in self.again_s and tensor in tensors for tensor in ROTATED)
        total: Floats = sum(parts, np.zeros_like(self.rope_s)) + (self.rope_s if rotated else 0.0)
        return total

    def bytes_of(self, tensors: Tensor) -> Floats:
        """Bytes that a layer keeps of them.

        Parameters
        ----------
        tensors : Tensor
            Those to weigh; what the layer does not have weighs nothing.

        Returns
        -------
        Floats, ``[k]``, bytes
        """
        total: Floats = sum((kept for tensor, kept in self.bytes.items() if tensor in tensors), np.zeros_like(self.rope_s))
        return total

    def copies(self, moved_bytes: Floats) -> Copies:
        """What it takes to copy so much of one layer and micro batch to the host, and back.

        Parameters
        ----------
        moved_bytes : Floats
            Of one layer and micro batch, each way.

        Returns
        -------
        Copies
        """
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
    """Bytes and seconds of every tensor that one layer of the given kind keeps, where nothing is recomputed or moved.

    A tensor that is not kept is wanted again by the backward itself, so that what makes it runs once whatever else is dropped;
    only the rotary positions serve several. Collectives that gather a linear layer's input for its weight gradient serve what
    computes its output again as well; the exchange of tokens runs once more, with nothing beside it.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    keys : LayerKeys, ``[k]``
        Distinct layer keys without recompute or swap; the result has an entry for each.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.
    moe : bool
        A MoE layer, else a dense one.
    local : bool
        A layer with the model's ``local_attention``.

    Returns
    -------
    TensorCosts, ``[k]``

    Notes
    -----
    What a layer keeps beyond the tensors that are known here counts with the last one of its class, so that nothing is lost.
    """
    compute = layer_compute(workload, keys, device, moe=moe, local=local)
    comm, exchange = layer_comm(workload, keys, network, compute, device.constants, moe=moe, local=local)
    kept = layer_activations(workload, keys, moe=moe, local=local).saved
    known = _attention_bytes(workload, keys, kept, local=local)
    known |= _expert_bytes(workload, keys, kept) if moe else _mlp_bytes(workload, keys, kept)
    present = {tensor: each for tensor, each in known.items() if (each > 0.0).any()}
    ring_s = comm.cp_comm.forward_s + device.constants.hidden_stretch_fraction * comm.cp_comm.behind_forward_s
    again = _attention_again_s(workload, compute, ring_s, present, local=local)
    again |= _experts_again_s(workload, keys, device, compute, exchange.dispatch_s, present) if moe else _mlp_again_s(compute)
    behind_forward = comm.cp_comm.behind_forward_s + comm.ep_comm.behind_forward_s + comm.weight_gather.behind_forward_s
    behind_backward = comm.cp_comm.behind_backward_s + comm.ep_comm.behind_backward_s + comm.weight_gather.behind_backward_s
    return TensorCosts(
        bytes=present,
        again_s={tensor: seconds for tensor, seconds in again.items() if tensor in present},
        rope_s=compute.vector.rope,
        window_forward_s=np.maximum(compute.forward - behind_forward, 0.0),
        window_backward_s=np.maximum(compute.backward - behind_backward, 0.0),
        host_bytes_per_s=workload.cluster.profile.host_link_bytes_per_s,
        stretch=host_copy_stretch(workload),
    )


def _attention_bytes(workload: Workload, keys: LayerKeys, kept: dict[str, Floats], *, local: bool) -> dict[Tensor, Floats]:
    """The residual, the norms and the attention: what is kept of each tensor."""
    model, n, t = workload.model, keys.tokens(workload.training), keys.tp.astype(np.float64)
    heads = model.num_attention_heads
    parts = {
        Tensor.BLOCK_INPUT: kept["residual"],
        Tensor.NORM_OUTPUT: kept["norm_output"],
        Tensor.ATTENTION_SCORES: kept["attention_scores"],
    }
    statistics = heads * workload.device_traits.softmax_statistics_bytes
    if model.linear_attention(local=local) is not None:
        own: dict[Tensor, Floats] = {}
    elif model.mla is not None:
        mla, without_up = model.mla, attention_bytes_per_token(workload, keys, local=local)[1]
        queries = ELEMENT_BYTES * (heads * mla.qk_head_dim + mla.q_lora_rank) / t
        output = (ELEMENT_BYTES * heads * mla.v_head_dim + statistics) / t
        copies = np.where(keys.ulysses_degree > 1, ELEMENT_BYTES * heads * mla.v_head_dim / t, 0.0)
        own = {
            Tensor.QUERIES: queries * n,
            Tensor.KEYS_VALUES: kept["attention"] - (without_up + queries) * n,
            Tensor.ATTENTION_OUTPUT: output * n,
            Tensor.LATENTS: (without_up - output - copies) * n,
        }
    else:
        wide = model.kv_channels * ELEMENT_BYTES / t
        groups = np.maximum(heads, t) if workload.software.legacy_layers else key_value_heads(model, keys)
        gates = np.where(keys.ulysses_degree > 1, 1.0, 0.0) + (2.0 if model.attention_output_gate else 0.0)
        projected, output = wide * (heads + 2.0 * groups), wide * heads + statistics / t
        rotary = np.maximum(kept["attention"] / n - projected - output - wide * heads * gates, 0.0)
        rotary = np.where(rotary > ROUNDING * projected, rotary, 0.0)
        own = {
            Tensor.ROTARY_INPUTS: rotary * n,
            Tensor.QUERY_KEY_VALUE: projected * n,
            Tensor.ATTENTION_OUTPUT: output * n,
        }
    rest = kept["attention"] - sum(own.values(), np.zeros_like(n))
    own[Tensor.ATTENTION_REST] = np.where(rest > ROUNDING * kept["attention"], rest, 0.0)
    return parts | own


ROUNDING = 1e-9  # of a sum: less than that is none


def _mlp_bytes(workload: Workload, keys: LayerKeys, kept: dict[str, Floats]) -> dict[Tensor, Floats]:
    """Both sides of a dense MLP's activation function."""
    channels = channel_bytes(workload, keys)
    behind = kept["mlp"] * channels.output / channels.kept
    return {Tensor.MLP_HIDDEN: kept["mlp"] - behind, Tensor.MLP_ACTIVATION: behind}


def _expert_bytes(workload: Workload, keys: LayerKeys, kept: dict[str, Floats]) -> dict[Tensor, Floats]:
    """Router, routed and shared experts."""
    shape, channels = workload.model.moe, channel_bytes(workload, keys)
    assert shape is not None
    rows = peak_expert_rows(keys, shape, workload.training)
    tokens = linear_input_bytes(workload) * workload.model.hidden_size * rows
    outputs = np.where(keeps_expert_outputs(keys), ELEMENT_BYTES * workload.model.hidden_size * rows, 0.0)
    behind = rows * shape.expert_ffn_hidden_size / keys.etp * channels.output
    shared = kept["shared_experts"] * channels.output / channels.kept
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
    """Seconds for the norms and the attention; ``ring_s`` is what its context-parallel ranks exchange in a forward."""
    matmuls = compute.matmuls
    again = {Tensor.NORM_OUTPUT: compute.vector.norms}
    if workload.model.linear_attention(local=local) is not None:
        return again
    core = compute.attention_forward + ring_s
    again |= {Tensor.ATTENTION_OUTPUT: core, Tensor.ATTENTION_SCORES: core}
    if workload.model.mla is not None:
        mla = workload.model.mla
        values = matmuls.mla_up - matmuls.mla_query_up if mla.q_lora_rank else matmuls.mla_up
        return again | {Tensor.QUERIES: matmuls.mla_query_up, Tensor.KEYS_VALUES: values}
    # Where no kernel keeps its inputs, the projection itself is what comes before the rotary positions.
    is_kept = Tensor.ROTARY_INPUTS in present
    again[Tensor.QUERY_KEY_VALUE] = np.zeros_like(core) if is_kept else matmuls.entering
    return again | {Tensor.ROTARY_INPUTS: matmuls.entering}


def _mlp_again_s(compute: LayerCompute) -> dict[Tensor, Floats]:
    """Seconds for a dense MLP."""
    first = compute.matmuls.mlp - compute.matmuls.last
    return {Tensor.MLP_HIDDEN: first, Tensor.MLP_ACTIVATION: compute.vector.activation}


def _experts_again_s(
    workload: Workload,
    keys: LayerKeys,
    device: Device,
    compute: LayerCompute,
    dispatch_s: Floats,
    present: dict[Tensor, Floats],
) -> dict[Tensor, Floats]:
    """Seconds for router, routed and shared experts."""
    matmuls, shape = compute.matmuls, workload.model.moe
    assert shape is not None
    second = matmuls.last - matmuls.shared_last
    logits = vector_s(ROUTER_BYTES * shape.num_experts * keys.sharded_tokens(workload.training), device)
    routed, none = present[Tensor.EXPERT_ACTIVATION], np.zeros_like(dispatch_s)
    share = routed / (routed + present.get(Tensor.SHARED_ACTIVATION, none))
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
    """What a layer's backward holds of tensors that it does not keep: all that it computes again, two layers' copies.

    Parameters
    ----------
    again_bytes : Floats
        Of tensors that are computed again.
    moved_bytes : Floats
        Of tensors that wait on the host; the next layer's come while this one's are used [mindspeed, swap_attention.md].

    Returns
    -------
    Floats, bytes
    """
    return again_bytes + 2.0 * moved_bytes


def chosen_activations(whole: LayerActivations, tensors: TensorCosts, choice: TensorChoice) -> LayerActivations:
    """What a layer keeps and holds under a choice.

    Parameters
    ----------
    whole : LayerActivations, ``[k]``
        With nothing recomputed or moved; its table of classes may be empty.
    tensors : TensorCosts, ``[k]``
        Of the same layer.
    choice : TensorChoice
        What is computed again, and what waits on the host.

    Returns
    -------
    LayerActivations, ``[k]``
    """
    gone = choice.recompute | choice.swap
    saved = dict(whole.saved)
    for tensor in gone:
        if saved and tensor in tensors.bytes:
            name = TENSORS[tensor].saved_as
            saved[name] = np.maximum(saved[name] - tensors.bytes[tensor], 0.0)
    working = working_bytes(tensors.bytes_of(choice.recompute), tensors.bytes_of(choice.swap))
    return replace(
        whole,
        saved=saved,
        saved_bytes=np.maximum(whole.saved_bytes - tensors.bytes_of(gone), 0.0),
        transient_bytes=whole.transient_bytes + working,
    )


def chosen_costs(whole: LayerCosts, tensors: TensorCosts, choice: TensorChoice) -> LayerCosts:
    """What a layer takes under a choice.

    Parameters
    ----------
    whole : LayerCosts, ``[k]``
        With nothing recomputed or moved; its tables of parts may be empty.
    tensors : TensorCosts, ``[k]``
        Of the same layer.
    choice : TensorChoice
        What is computed again, and what waits on the host.

    Returns
    -------
    LayerCosts, ``[k]``
    """
    again = tensors.recomputed_s(choice.recompute)
    copies = tensors.copies(tensors.bytes_of(choice.swap))

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
        ),
        masked=longer(whole.masked, activation_swap=copies.masked_s),
        forward_s=whole.forward_s + copies.forward_s,
        backward_s=whole.backward_s + copies.backward_s + again,
        pieces=longer(whole.pieces, attention=copies.forward_s, attention_back=copies.backward_s + again),
    )

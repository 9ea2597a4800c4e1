"""Memory of an instance's devices: weights, workspace, and the room that is left for keys and values."""

from __future__ import annotations

import math
from collections import Counter

from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.serving.engine import CACHE_BYTES, WEIGHT_BYTES, ServingLayout, ServingWorkload
from cost_models.serving.layer_times import STATE_BYTES, cached_elements
from cost_models.shapes.parameters import GATED_MATRICES, PLAIN_MATRICES, layer_parameters
from cost_models.shapes.workload import LayerKind
from documents.late_methods import dataclass

DEFAULT_UTILISATION = 0.9  # fraction of usable memory that an engine takes [vllm-ascend]
DEFAULT_PASS_TOKENS = 8192  # prefill tokens that pass a replica at once [vllm-ascend]
HIDDEN_COPIES = 4  # copies of the hidden state alive at once in a layer: residual, norm, input and output of a block


@dataclass(frozen=True)
class ServingMemory:
    """Bytes of the fullest device; ``limit_bytes`` is the part that the engine can fill."""

    limit_bytes: float
    weights_bytes: float
    workspace_bytes: float
    communicator_bytes: float

    @property
    def cache_bytes(self) -> float:
        """Bytes left for keys and values; negative if the weights do not fit."""
        return self.limit_bytes - self.weights_bytes - self.workspace_bytes - self.communicator_bytes


def weight_bytes(workload: ServingWorkload, layout: ServingLayout) -> float:
    """Weights of the fullest device: the stage with most layers, with the embedding or the head. [bytes]

    Linear layers have the engine's precision; embedding, head, norms and routers have 16 bits.
    """
    model, engine = workload.model, workload.engine
    kinds = model.kinds_of_layers()
    layers = sum(number * _layer_bytes(workload, layout, kind) for kind, number in Counter(kinds).items())
    fullest = layers / model.num_layers * math.ceil(model.num_layers / layout.pp)
    table = model.vocab_size * model.hidden_size * ELEMENT_BYTES / layout.tp
    ends = table if layout.pp > 1 or model.tied_embeddings else 2.0 * table
    drafts = 0.0
    if engine.draft_tokens and engine.draft_layers:
        projection = 2.0 * model.hidden_size**2 * WEIGHT_BYTES[engine.precision] / layout.tp
        drafts = engine.draft_layers * (_layer_bytes(workload, layout, kinds[-1]) + projection)
    return fullest + ends + drafts


def _layer_bytes(workload: ServingWorkload, layout: ServingLayout, kind: LayerKind) -> float:
    """Weight bytes of one layer on a device."""
    model, engine, tp = workload.model, workload.engine, layout.tp
    parts = layer_parameters(model, moe=kind.moe, local=kind.local)
    shared = 0 if engine.shared_experts_apart else parts.shared_experts
    linear = (parts.attention_sharded + parts.mlp + shared) / tp + parts.attention_replicated
    if kind.moe and model.moe is not None:
        slots = max((model.moe.num_experts + layout.redundant_experts) / layout.ep, 1.0) if layout.ep > 1 else 0.0
        each = parts.experts / model.moe.num_experts
        linear += slots * each if layout.ep > 1 else parts.experts / tp
    return linear * WEIGHT_BYTES[engine.precision] + (parts.norms + parts.router) * ELEMENT_BYTES


def kv_bytes_per_token(workload: ServingWorkload, layout: ServingLayout) -> float:
    """Keys and values of one token on a device, over a stage's layers that keep all tokens. [bytes]

    Grouped heads are divided over tp; every device holds latents whole. 70,272 for DeepSeek-V3 in 16 bits on one stage.
    """
    full = sum(not kind.local for kind in workload.model.kinds_of_layers())
    return full * _layer_cache_bytes(workload, layout, local=False)


def kv_bytes_per_request(workload: ServingWorkload, layout: ServingLayout) -> float:
    """Bytes that a request of any length keeps on a device: windows, and states of recurrences. [bytes]"""
    local = workload.model.local_attention
    if local is None:
        return 0.0
    layers = sum(kind.local for kind in workload.model.kinds_of_layers())
    if local.is_linear:
        stages = math.ceil(workload.model.num_layers / layout.pp) / workload.model.num_layers
        return layers * stages * local.state_elements * STATE_BYTES / layout.tp
    return layers * local.window * _layer_cache_bytes(workload, layout, local=True)


def _layer_cache_bytes(workload: ServingWorkload, layout: ServingLayout, *, local: bool) -> float:
    """Cache bytes of one token in a layer, times the share of layers on the fullest stage."""
    model = workload.model
    elements = cached_elements(model, local=local)
    if model.mla is None:
        elements *= max(1.0 / layout.tp, 1.0 / model.num_query_groups)
    stages = math.ceil(model.num_layers / layout.pp) / model.num_layers
    return elements * stages * CACHE_BYTES[workload.engine.cache_precision]


def instance_groups(layout: ServingLayout) -> dict[str, int]:
    """Ranks of each kind of process group of an instance; 1: there is no such group [vllm, parallel_state.py]."""
    return {"world": layout.num_devices, "tp": layout.tp, "pp": layout.pp, "ep": layout.ep}


def serving_memory(
    workload: ServingWorkload,
    layout: ServingLayout,
    *,
    utilisation: float = DEFAULT_UTILISATION,
    pass_tokens: float = DEFAULT_PASS_TOKENS,
) -> ServingMemory:
    """Memory of the fullest device without keys and values.

    Parameters
    ----------
    utilisation
        Fraction of usable memory that the engine can fill.
    pass_tokens
        Tokens that pass a replica at once; they decide the workspace.
    """
    model, profile, tp = workload.model, workload.cluster.profile, layout.tp
    matrices = GATED_MATRICES if model.gated_linear_unit else PLAIN_MATRICES
    width = model.ffn_hidden_size
    if model.moe is not None:
        width = max(model.moe.top_k * model.moe.expert_ffn_hidden_size + model.moe.shared_expert_ffn_hidden_size, width)
    heads = model.num_attention_heads * (model.kv_channels if model.mla is None else model.mla.qk_head_dim)
    channels = HIDDEN_COPIES * model.hidden_size + ((matrices - 1) * width + 3 * heads) / tp
    groups = sum(size > 1 for size in instance_groups(layout).values())
    return ServingMemory(
        limit_bytes=utilisation * (profile.usable_hbm_bytes - profile.context_bytes),
        weights_bytes=weight_bytes(workload, layout),
        workspace_bytes=pass_tokens * ELEMENT_BYTES * channels,
        communicator_bytes=groups * profile.communicator_bytes,
    )


def kv_capacity_tokens(
    workload: ServingWorkload,
    layout: ServingLayout,
    *,
    utilisation: float = DEFAULT_UTILISATION,
    pass_tokens: float = DEFAULT_PASS_TOKENS,
    requests: float = 0.0,
) -> float:
    """Tokens whose keys and values fit in an instance, over all its attention replicas.

    0 if the weights alone do not fit; infinite for a model that keeps nothing a token.

    Parameters
    ----------
    requests
        In flight in the instance; each keeps ``kv_bytes_per_request``.
    """
    room = serving_memory(workload, layout, utilisation=utilisation, pass_tokens=pass_tokens).cache_bytes
    room -= requests / layout.dp * kv_bytes_per_request(workload, layout)
    if room <= 0.0:
        return 0.0
    each = kv_bytes_per_token(workload, layout)
    return math.inf if each == 0.0 else layout.dp * math.floor(room / each)

"""Bytes that norms, gated activations and routers keep beyond their fused kernels, from the operators that autograd sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_factor
from cost_models.layer.expert_communication import expected_domains_per_token
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MoeShape, Workload

LOGIT_BYTES = 8  # logit and probability of a token and expert, in FP32 [megatron-0.12]
INDEX_BYTES, ROW_BYTES = 8, 4  # INT64 and INT32
NORM_STATISTIC_BYTES = 4  # 1 / rms of a normalised vector, in FP32


def norm_input_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes that an RMS norm keeps for each element of its input. ``[k]``

    A fused kernel keeps the input itself. Without it, eager code keeps the input in FP32 and the normalised input before the
    weight [mindspeed, rms_norm.py; transformers-main, modeling_llama.py]; no kernel fuses a norm over the grid of tp-2d. Models
    without a gated MLP have layer norms, which PyTorch runs as one kernel.
    """
    # ``element_factor`` multiplies the result: in FP32 the cast is no copy.
    apart = FP32_BYTES / element_factor(workload) + ELEMENT_BYTES
    grid = keys.has(Feature.TP_2D) & (keys.tp > 1)
    eager = workload.software_traits.eager and workload.model.gated_linear_unit
    return np.where(grid | (~keys.has(Feature.FUSED_NORM) & eager), apart, ELEMENT_BYTES)


def gate_copy_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes a channel that a gated activation without its fused kernel keeps between its inputs and its output. ``[k]``

    The activation of the gate, and in Megatron-Core since 0.15 the value with its offset added [megatron-0.19, mlp.py].
    """
    if not (workload.model.gated_linear_unit and workload.software_traits.eager):
        return np.zeros(len(keys.tp))
    copies = 2.0 if workload.software.has_since(workload.software_traits.gate_offset_year) else 1.0
    return np.where(keys.has(Feature.FUSED_SWIGLU), 0.0, copies * ELEMENT_BYTES)


def expert_product_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes a routed row and channel of a product of activation and probability that is kept beside the activation. ``[k]``

    MindSpeed multiplies them by an operator of its own, Megatron-Core where the activation has no fused kernel
    [mindspeed, groupedmatmul; megatron-0.19, experts.py]. The activation, recomputed, includes it.
    """
    traits = workload.software_traits
    if not (traits.eager and weighs_activations(workload)):
        return np.zeros(len(keys.tp))
    fused = keys.has(Feature.FUSED_SWIGLU) & traits.expert_weights_fused & workload.model.gated_linear_unit
    return np.where(fused, 0.0, ELEMENT_BYTES)


def weighs_activations(workload: Workload) -> bool:
    """Whether an expert's activation is multiplied by the weight of its token, and not the expert's output."""
    return workload.software.has_since(workload.software_traits.expert_weight_year)


def routes_in_fp32(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether a router computes in FP32, so that the weights of its choices are FP32 as well. ``[k]``"""
    traits, moe = workload.software_traits, workload.model.moe
    least, since = traits.fp32_router_experts, traits.fp32_router_year
    if moe is None or least is None or (since is not None and not workload.software.has_since(since)):
        return np.zeros(len(keys.tp), dtype=np.bool_)
    found: NDArray[np.bool_] = (keys.dispatcher == int(Dispatcher.TWO_LEVEL)) | (moe.num_experts >= least)
    return found


def routing_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes a token of what a router decides: probabilities, maps of tokens to experts, indices. ``[k]``

    Megatron-Core keeps a token's probability and a byte of the map for each expert, and for each choice the expert, two weights
    and a row. An all-to-all sorts the map, which keeps 8 bytes an expert; without the fused permutation, releases before 0.13
    keep a transposed map and probabilities in place of that, and an all-gather a second map. DeepEP keeps maps of the rows that a
    rank receives instead (``_received_map_bytes``). The scores of the balancing loss are 4 bytes an expert, as many are those
    from which a router chooses by their sigmoid, or by a softmax that is not of the chosen ones alone
    [megatron-0.19, router.py, moe_utils.py; megatron-0.12, moe_utils.py].
    """
    moe, traits = workload.model.moe, workload.software_traits
    if moe is None:
        return np.zeros(len(keys.tp))
    routed = workload.model.constants.router
    weight = np.where(routes_in_fp32(workload, keys), FP32_BYTES, ELEMENT_BYTES)
    sorts = keys.has(Feature.MOE_PERMUTE_FUSION) | workload.software.has_since(traits.sorted_map_year)
    each = weight + 1.0 + np.where(sorts, INDEX_BYTES, weight + 1.0)
    travels = keys.ep * keys.etp > 1
    each = np.where((keys.dispatcher == int(Dispatcher.ALLGATHER)) & travels, weight + 2.0, each)
    kept = moe.num_experts * each + moe.top_k * (2.0 * INDEX_BYTES + FP32_BYTES + weight)
    kept = np.where((keys.dispatcher == int(Dispatcher.TWO_LEVEL)) & travels, _received_map_bytes(moe, keys), kept)
    wide = routed.score_function == "sigmoid" or routed.normalize_topk is False
    kept = kept + FP32_BYTES * moe.num_experts * (2.0 if wide else 1.0)
    if traits.weighs_in_fp32:
        kept = np.full(len(keys.tp), FP32_BYTES * moe.num_experts + moe.top_k * (3.0 * INDEX_BYTES + 2.0 * FP32_BYTES))
    elif not traits.copied_router_input:
        kept = np.full(len(keys.tp), float(LOGIT_BYTES) * moe.num_experts)
    return kept / element_factor(workload)


def _received_map_bytes(moe: MoeShape, keys: LayerKeys) -> Floats:
    """Bytes a token of DeepEP's indices, and of the maps of received rows to a rank's own experts. ``[k]``

    A token has for each choice the expert and two weights, on each rank a flag and a row; a received row has its place, its map
    to the rank's experts, and that map sorted; each of its choices has four indices and a weight
    [megatron-0.19, token_dispatcher.py, _DeepepManager; transformer-engine, permutation.py].
    """
    ranks = keys.ep * keys.etp
    own = moe.num_experts / keys.ep
    received = expected_domains_per_token(keys.ep, moe.num_experts, moe.top_k, moe.num_groups, moe.group_topk) * keys.etp
    choices = moe.top_k * (INDEX_BYTES + 2.0 * FP32_BYTES + (4.0 * INDEX_BYTES + FP32_BYTES) * keys.etp)
    found: Floats = choices + ranks * (1.0 + ROW_BYTES) + received * (ROW_BYTES + own + ROW_BYTES * (2.0 * own + 1.0))
    return found

"""Bytes of experts' tensors beside their MLPs: copies of tokens while they travel, outputs, and inputs of shared experts."""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_factor
from cost_models.layer.expert_rows import gathers_shared_input, peak_expert_rows, routed_copies, routed_tokens
from cost_models.layer.linear_inputs import kept_input_bytes
from cost_models.layer.unfused_bytes import routes_in_fp32, weighs_activations
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import MoeShape, Workload


def expert_copies(workload: Workload, keys: LayerKeys, shape: MoeShape) -> Floats:
    """Bytes of token copies that live while an MoE layer exchanges them: sent, received and sorted. ``[k]``

    With an all-gather, the gathered tokens of all ranks replace the sent ones. A router in FP32 doubles the bytes of their
    outputs; if overlapped, the backward gathers them again while it holds its gradient. An overlapped all-to-all holds the
    buffers of two exchanges at once [mindspeed-moe-overlap]. Merged passes hold the buffers of a forward and a backward
    [mindspeed-fb-overlap].

    Returns
    -------
    Floats, ``[k]``, bytes
        For one micro batch, at the layer's worst moment. No layer keeps them for its backward.

    Notes
    -----
    Memory uses the rank that holds the most rows (``peak_expert_rows``). Time uses the mean over layers of the fullest rank.
    """
    h, training = float(workload.model.hidden_size), workload.training
    sent = ELEMENT_BYTES * h * routed_copies(keys, shape, training)
    received = 2.0 * ELEMENT_BYTES * h * peak_expert_rows(keys, shape, training)  # received and sorted copies
    travels = keys.ep * keys.etp > 1
    gathers = travels & (keys.dispatcher == int(Dispatcher.ALLGATHER))
    gathered = ELEMENT_BYTES * h * keys.sharded_tokens(training) * keys.ep * keys.etp
    # Outputs are summed in the precision of their weights.
    twice = keys.has(Feature.MOE_ALLGATHER_OVERLAP_COMM) | routes_in_fp32(workload, keys)
    gathered = gathered * np.where(twice, 2.0, 1.0)
    exchanged = (sent + received) * np.where(travels & keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM), 2.0, 1.0)
    copies: Floats = np.where(gathers, gathered + received, exchanged)
    return copies * np.where(travels & keys.has(Feature.MOE_COMM_OVERLAP), 2.0, 1.0)


def expert_output_bytes(workload: Workload, keys: LayerKeys, shape: MoeShape) -> Floats:
    """Bytes of the outputs of routed experts that wait for the backward. ``[k]``

    An overlapped exchange starts its backward from them [mindspeed-moe-overlap]. Where they, not the activations, are multiplied
    by the weights of their tokens, the product's gradient needs them: behind an exchange those of the rank's own tokens
    [megatron-0.12, core_v0.12.0, token_dispatcher.py]; or an FP32 copy of all that it routed, where the weights are in FP32.
    """
    each, gathers = ELEMENT_BYTES * float(workload.model.hidden_size), keys.dispatcher == int(Dispatcher.ALLGATHER)
    rows, own = peak_expert_rows(keys, shape, workload.training), routed_copies(keys, shape, workload.training)
    travels = keys.ep * keys.etp > 1
    overlapped = travels & ~gathers & keys.has(Feature.MOE_ALLTOALL_OVERLAP_COMM)
    weighed = workload.software_traits.eager and not weighs_activations(workload)
    returned = np.where(travels & (keys.dispatcher == int(Dispatcher.ALLTOALL)), own, rows)
    if workload.software_traits.weighs_in_fp32:
        return FP32_BYTES / ELEMENT_BYTES / element_factor(workload) * each * routed_tokens(workload, keys) * shape.top_k
    return each * np.where(overlapped, rows, returned if weighed else 0.0)


def gathered_shared_input_bytes(workload: Workload, keys: LayerKeys) -> Floats:
    """Bytes of the input of overlapped shared experts, which each tensor-parallel rank gathers and keeps whole. ``[k]``

    Their linear layers do not communicate themselves, so that the backward gathers nothing again
    [megatron-0.12, shared_experts.py].
    """
    whole = kept_input_bytes(workload, Target.FC1) * float(workload.model.hidden_size) * keys.tokens(workload.training)
    return np.where(gathers_shared_input(workload, keys), whole, 0.0)

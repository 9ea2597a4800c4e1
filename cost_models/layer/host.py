"""Host time to dispatch a layer's kernels, and the time that a layer waits for the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.adapters import adapter_kernels
from cost_models.layer.expert_passes import BIAS_KERNELS
from cost_models.layer.expert_rows import padded
from cost_models.layer.lone_norms import lone_norms
from cost_models.layer.modules import has_one_expert_kernel
from cost_models.shapes.effective_switches import rotates
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.recompute_modules import MODULES, RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import TENSORS, Tensor
from cost_models.shapes.workload import Workload

# Kernels that a forward of one eager layer launches; a backward launches twice as many [runs-fit].
ATTENTION_KERNELS, MLP_KERNELS, MOE_KERNELS, EXPERT_KERNELS = 20, 10, 30, 8  # the last: for each expert without a grouped matmul
# Latent attention replaces one projection by two down- and up-projections with norms. Every layer computes its own angles,
# rotates parts of queries and keys by single operators, and splits and joins them [megatron-0.12, multi_latent_attention.py].
LATENT_ATTENTION_KERNELS = 45
INDEXER_KERNELS = 35  # assumed: projections, norm, positions and rotation of both, choice, loss [mindspeed-llm, dsa_indexer.py]

# One call to the library casts the operands of an expert's two matmuls: about one eager kernel's time on the host
# [transformer-engine]; [runs-fit].
QUANTISED_EXPERT_KERNELS = 1
FUSED_KERNELS_SAVED = {Feature.FUSED_NORM: 6, Feature.FUSED_SWIGLU: 2, Feature.FUSED_ROPE: 4}  # kernels in a forward [runs-fit]
# Recompute of a module launches its own kernels, and takes about ten kernels' time to set random states back and forth
# [megatron-0.12, tensor_parallel/random.py]; [runs-fit].
CHECKPOINT_KERNELS = 10
REPEATED_KERNELS = {
    RecomputeModule.CORE_ATTN: CHECKPOINT_KERNELS + 2,
    RecomputeModule.LAYERNORM: CHECKPOINT_KERNELS + 1,  # each
    RecomputeModule.MLP_ACT: CHECKPOINT_KERNELS + 1,
    RecomputeModule.MLA_UP_PROJ: CHECKPOINT_KERNELS + 6,
    RecomputeModule.MLP: CHECKPOINT_KERNELS + MLP_KERNELS,
    RecomputeModule.MOE: CHECKPOINT_KERNELS + MOE_KERNELS,
    RecomputeModule.EVERY_OTHER_MATMUL: CHECKPOINT_KERNELS + ATTENTION_KERNELS + MLP_KERNELS,
}
SHARED_CHECKPOINTS = (RecomputeModule.LAYERNORM, RecomputeModule.MLP_ACT, RecomputeModule.MLA_UP_PROJ)
# Kernels of the operators that a tensor chosen alone repeats, beside its own setting of random states.
OPERATOR_KERNELS = {Tensor.ROUTER: MOE_KERNELS // 3, Tensor.EXPERT_INPUT: MOE_KERNELS // 3}
OTHER_OPERATOR_KERNELS = 2
# A layer's forward with blocking launches: thirty kernels, each with about 20 us on the host and 10 us to launch and wake up.
# One plan differed by 0.87 ms a layer and forward with and without them [bigscience, chronicles-prequel.md]; [runs-gpu].
BLOCKED_FORWARD_S = 9e-4
SLOWEST_HOST_FRACTION = 0.1  # added to dispatch by each doubling of tp: collectives wait for the slowest host [runs-fit]


def host_s(workload: Workload, keys: LayerKeys, constants: Constants, *, moe: bool, local: bool = False) -> tuple[Floats, Floats]:
    """Host time to dispatch a forward, and the time a MoE pass waits for the host to learn the sizes of its exchange. [s] ``[k]``

    A backward takes twice the dispatch time. The wait is the same in either pass.

    Notes
    -----
    dispatch = kernels x ``host_kernel_s`` x (1 + 0.1 log2 t), times ``graph_dispatch_factor`` under a graph. A MoE layer
    waits ``host_moe_sync_s`` for its counts, and once more for each expert that runs its own kernels. It never waits under a
    graph, nor if every expert is padded to its capacity. Dropping alone leaves sizes unknown beforehand
    [megatron-0.12, token_dispatcher.py].
    """
    has_mixer, has_mlp = workload.model.has_mixer, workload.model.has_mlp
    launched = has_mixer * ATTENTION_KERNELS + has_mlp * (MOE_KERNELS if moe else MLP_KERNELS)
    kernels = np.full(len(keys.tp), float(launched))
    shape, looped = workload.model.moe, np.zeros(len(keys.tp))
    if workload.model.mla is not None and has_mixer:
        kernels = kernels + LATENT_ATTENTION_KERNELS + INDEXER_KERNELS * (workload.model.sparse_attention is not None)
    if moe and shape is not None:
        kernels = kernels + MLP_KERNELS * bool(shape.shared_expert_ffn_hidden_size)
        looped = np.where(keys.has(Feature.MOE_GROUPED_GEMM), 0.0, np.maximum(shape.num_experts / keys.ep, 1.0))
        kernels = kernels + EXPERT_KERNELS * looped
        kernels = kernels + BIAS_KERNELS * shape.expert_biases * np.maximum(shape.num_experts / keys.ep, 1.0)
        if workload.training.precision in QUANTISED_PRECISIONS:
            cast_alone = ~has_one_expert_kernel(workload, keys)
            kernels = kernels + np.where(cast_alone, QUANTISED_EXPERT_KERNELS * np.maximum(shape.num_experts / keys.ep, 1.0), 0.0)
    rotated = has_mixer and rotates(workload.model) and workload.model.linear_attention(local=local) is None
    kernels = kernels - FUSED_KERNELS_SAVED[Feature.FUSED_ROPE] * (has_mixer and not rotated)
    present = {Feature.FUSED_NORM: workload.model.num_blocks / 2.0, Feature.FUSED_SWIGLU: has_mlp, Feature.FUSED_ROPE: rotated}
    for feature, saved in FUSED_KERNELS_SAVED.items():
        kernels = kernels - np.where(keys.has(feature), present[feature] * saved, 0)
    dispatch = (kernels + adapter_kernels(workload, moe=moe)) * _kernel_s(workload, keys, constants)
    unknown = np.zeros(len(keys.tp), dtype=bool) if not moe or shape is None else ~padded(keys, shape)
    # Without a grouped kernel, each expert's own kernels wait once more for its count.
    # A captured graph takes the counts from the device.
    waits = np.where(_captured(workload, keys), 0.0, (1.0 + looped) * unknown)
    return dispatch, waits * constants.host_moe_sync_s


def repeated_host_s(workload: Workload, keys: LayerKeys, constants: Constants, *, moe: bool, local: bool = False) -> Floats:
    """Host time to dispatch the recompute of selected modules in a backward, in addition to two forwards' worth. [s] ``[k]``"""
    kernels = np.zeros(len(keys.tp))
    block = keys.recomputes(RecomputeModule.MOE if moe else RecomputeModule.MLP)  # includes all modules inside the block
    lone = sum(lone_norms(workload, keys, moe=moe, local=local), np.zeros(len(keys.tp)))
    idle = RecomputeModule.MLP_ACT if workload.software_traits.recomputes_routed_activations and not moe else None
    for module, repeated in REPEATED_KERNELS.items():
        if MODULES[module].in_layer(workload.model, moe):
            alone = keys.recomputes(module) & ~(block & MODULES[module].inside)
            times = lone if module is RecomputeModule.LAYERNORM else float(module is not idle)
            kernels = kernels + np.where(alone, times * repeated, 0)
    more = MOE_KERNELS - MLP_KERNELS if moe else 0
    kernels = kernels + np.where(keys.recomputes(RecomputeModule.EVERY_OTHER_MATMUL), more, 0)
    return kernels * _kernel_s(workload, keys, constants)


def host_again_s(
    workload: Workload, keys: LayerKeys, constants: Constants, tensors: list[Tensor], *, moe: bool, local: bool = False
) -> dict[Tensor, Floats]:
    """Host time to dispatch the recompute of each of a layer's tensors, if it is chosen. [s] ``[k]``

    The tensors of one module share its checkpoint: together they take the module's time.
    """
    each = _kernel_s(workload, keys, constants)
    found = {}
    for tensor in tensors:
        module = TENSORS[tensor].module
        if module in SHARED_CHECKPOINTS:
            lone = sum(lone_norms(workload, keys, moe=moe, local=local), np.zeros(len(keys.tp)))
            times = lone if module is RecomputeModule.LAYERNORM else 1.0
            sharing = sum(TENSORS[other].module is module for other in tensors)
            found[tensor] = times * REPEATED_KERNELS[module] / sharing * each
        else:
            found[tensor] = (CHECKPOINT_KERNELS + OPERATOR_KERNELS.get(tensor, OTHER_OPERATOR_KERNELS)) * each
    return found


def blocked_s(workload: Workload) -> float:
    """Time that a layer's forward waits for its own launches; a backward waits twice as long. [s]

    It is 0 unless ``blocking_launches`` is set, because the host otherwise runs ahead of the device.
    """
    return BLOCKED_FORWARD_S * workload.software.blocking_launches


def _kernel_s(workload: Workload, keys: LayerKeys, constants: Constants) -> Floats:
    """Host time to dispatch one kernel: less under a graph, more if several hosts wait for each other. [s] ``[k]``"""
    each = constants.host_kernel_s * np.where(_captured(workload, keys), constants.graph_dispatch_factor, 1.0)
    slowed: Floats = each * (1.0 + SLOWEST_HOST_FRACTION * np.log2(keys.tp))
    return slowed


def _captured(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether a graph contains the layer, compiled or recorded."""
    captured: NDArray[np.bool_] = keys.has(Feature.CUDA_GRAPH) | (not workload.software_traits.eager)
    return captured

"""Rows that the experts of a rank process in one micro batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MoeShape, TrainingJob, Workload


def routed_copies(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Token copies that a rank sends to experts: k n_l, or as many as the capacity pads or drops them to. ``[k]``

    For one micro batch. Every rank sends the copies of its own tokens, so the number is the same on all ranks.
    """
    copies = keys.sharded_tokens(training) * shape.top_k
    return copies * (shape.capacity_factor or 1.0)


def routes_own_part(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether a rank routes its own part of a tp group's tokens. ``[k]``

    Layers that gather apart route all of them, but torchtitan's newest with experts on several ranks
    [torchtitan-2026.08, models/common/moe_sharding.py].
    """
    gathers = workload.software_traits.gathers_apart
    own: NDArray[np.bool_] = (keys.ep > 1) & workload.software.newest_layers
    return own if gathers else np.ones_like(own)


def routed_tokens(workload: Workload, keys: LayerKeys) -> Floats:
    """Tokens of a micro batch that a rank routes. ``[k]``"""
    whole, part = keys.tokens(workload.training), keys.sharded_tokens(workload.training)
    if workload.software_traits.gathers_apart:  # also without sequence parallelism
        part = whole / keys.tp
    return np.where(routes_own_part(workload, keys), part, whole)


def token_holders(keys: LayerKeys) -> Floats:
    """Ranks of one etp group with the same tokens: 1 under sequence parallelism, else the ranks that share a tp group. ``[k]``"""
    return np.where(keys.sequence_parallel != 0, 1.0, np.minimum(keys.etp, keys.tp))


def gathers_shared_input(workload: Workload, keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether overlapped shared experts gather their input before they run, and keep it as a whole. ``[k]``

    A compiled graph has no such experts; without sequence parallelism their input is whole anyway.
    """
    shape = workload.model.moe
    shared = shape is not None and shape.shared_expert_ffn_hidden_size > 0 and workload.software_traits.eager
    whole = keys.has(Feature.MOE_SHARED_EXPERT_OVERLAP) & (keys.sequence_parallel != 0) & (keys.tp > 1)
    whole = whole & (keys.ep * keys.etp > 1)
    return whole if shared else np.zeros_like(whole)


def padded(keys: LayerKeys, shape: MoeShape) -> np.ndarray:
    """Whether every expert gets the same number of rows, which needs a capacity to pad to. ``[k]``"""
    return keys.has(Feature.MOE_PAD_TO_CAPACITY) & bool(shape.capacity_factor)


def uneven_experts(shape: MoeShape, training: TrainingJob) -> ExpertCounts | ExpertSpread | None:
    """Source of the load of each expert: measured counts, else an assumed spread.

    ``None`` if a capacity gives every expert the same load.
    """
    return None if shape.capacity_factor else training.expert_counts or training.expert_spread


def load_factor(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Copies on the busiest expert-parallel rank over the mean, averaged over the MoE layers. ``[k]``

    At least 1 for measured counts. A capacity bounds every expert alike, so the factor is 1 [megatron-0.12, moe].

    Notes
    -----
    Imbalance enters times here: expert matmuls, permutation and exchanges all wait for the busiest rank. Sources in
    order: a capacity factor (1), measured counts (by ``ep``), an assumed spread (by ``ep`` and the rank's copies),
    ``expert_load_factor`` (one guess for every ``ep``).
    """
    uneven = uneven_experts(shape, training)
    if isinstance(uneven, ExpertSpread):
        return uneven.load_factor(keys.ep, _mean_rows(keys, shape, training))
    if uneven is not None:
        return uneven.load_factor(keys.ep)
    balanced = 1.0 if shape.capacity_factor else training.expert_load_factor
    # One rank alone holds every expert: nothing can be uneven.
    return np.where(keys.ep * keys.etp > 1, balanced, 1.0)


def _mean_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Mean rows of a rank's experts, gathered over the etp ranks, for one micro batch and layer. ``[k]``

    Ranks that hold the same tokens count once.
    """
    return routed_copies(keys, shape, training) * keys.etp / token_holders(keys)


def expert_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Rows that the busiest expert-parallel rank multiplies: load factor x copies, gathered over the etp ranks. ``[k]``

    For one micro batch and layer.
    """
    return _mean_rows(keys, shape, training) * load_factor(keys, shape, training)


def peak_expert_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Rows that memory must hold in each layer: at least ``expert_rows`` for measured counts. ``[k]``

    With counts, every layer holds as much as the layer with the fullest rank, as if one rank were the busiest everywhere. With a
    spread, the rank with the largest sum over the layers decides.
    """
    rows, uneven = _mean_rows(keys, shape, training), uneven_experts(shape, training)
    if isinstance(uneven, ExpertSpread):
        return rows * uneven.peak_load_factor(keys.ep, rows)
    return expert_rows(keys, shape, training) if uneven is None else rows * uneven.peak_load_factor(keys.ep)


def drops_expert_inputs(keys: LayerKeys) -> NDArray[np.bool_]:
    """Whether routed experts keep the inputs of their activation functions alone, and a backward dispatches again. ``[k]``

    Merged passes do so under ``moe_zero_memory`` [mindspeed-fb-overlap, fwd.py; bwd.py].
    """
    return keys.has(Feature.MOE_ZERO_MEMORY) & keys.has(Feature.MOE_COMM_OVERLAP) & (keys.ep > 1)

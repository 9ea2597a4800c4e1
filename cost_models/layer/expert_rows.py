"""Rows that a rank's experts process in one micro batch."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import MoeShape, TrainingJob


def routed_copies(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Token copies a rank sends to experts: k n_l, or what the capacity pads or drops them to. ``[k]``

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    Floats, ``[k]``, token copies
        Of one micro batch; balanced over ranks by construction, since each sends what its own tokens chose.
    """
    copies = keys.sharded_tokens(training) * shape.top_k
    return copies * (shape.capacity_factor or 1.0)


def token_holders(keys: LayerKeys) -> Floats:
    """Ranks of one etp group with the same tokens: without sequence parallelism, those that share a tp group. ``[k]``

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.

    Returns
    -------
    Floats, ``[k]``, ranks
        1 under sequence parallelism.
    """
    return np.where(keys.sequence_parallel != 0, 1.0, np.minimum(keys.etp, keys.tp))


def padded(keys: LayerKeys, shape: MoeShape) -> np.ndarray:
    """Whether every expert gets the same rows: padding needs a capacity to pad to. ``[k]``

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.

    Returns
    -------
    bool, ``[k]``
    """
    return keys.has(Feature.MOE_PAD_TO_CAPACITY) & bool(shape.capacity_factor)


def uneven_experts(shape: MoeShape, training: TrainingJob) -> ExpertCounts | ExpertSpread | None:
    """What says the load of every degree: counts, else a spread; none where a capacity pads or drops every expert to the same.

    Parameters
    ----------
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    ExpertCounts, ExpertSpread or None
    """
    return None if shape.capacity_factor else training.expert_counts or training.expert_spread


def load_factor(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Copies on the busiest expert-parallel rank over the mean, averaged over the MoE layers. ``[k]``

    A capacity bounds every expert alike, which makes it one [megatron-0.12, moe].

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    Floats, ``[k]``
        At least 1 for given counts; what the job says otherwise.

    Notes
    -----
    This is where imbalance enters times: expert matmuls, permutation and exchanges all wait for the busiest rank. Sources in
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
    """Copies that a rank's experts get in the mean, gathered over the etp ranks; ranks that hold the same tokens count once.

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    Floats, ``[k]``, rows
        Of one micro batch and layer.
    """
    return routed_copies(keys, shape, training) * keys.etp / token_holders(keys)


def expert_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Rows on the busiest expert-parallel rank: load factor x copies, gathered over the etp ranks. ``[k]``

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    Floats, ``[k]``, rows
        That the experts of the busiest rank multiply, of one micro batch and layer.
    """
    return _mean_rows(keys, shape, training) * load_factor(keys, shape, training)


def peak_expert_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """The same as memory must hold them, of each layer. ``[k]``

    Of counts those of the layer with the fullest rank, as if one rank were it everywhere; of a spread those of the rank that
    holds most in sum.

    Parameters
    ----------
    keys : LayerKeys, ``[k]``
        Distinct layer keys; the result has an entry for each.
    shape : MoeShape
        Routed experts, and how many of them a token chooses.
    training : TrainingJob
        Sequence length, batch, precision and routing load.

    Returns
    -------
    Floats, ``[k]``, rows
        Of counts at least ``expert_rows``.
    """
    rows, uneven = _mean_rows(keys, shape, training), uneven_experts(shape, training)
    if isinstance(uneven, ExpertSpread):
        return rows * uneven.peak_load_factor(keys.ep, rows)
    return expert_rows(keys, shape, training) if uneven is None else rows * uneven.peak_load_factor(keys.ep)

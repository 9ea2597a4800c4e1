"""Rows that a rank's experts process in one micro batch."""

from __future__ import annotations

import numpy as np

from cost_models.layer_keys import Floats, LayerKeys
from cost_models.strategy import Feature
from cost_models.workload import MoeShape, TrainingJob


def routed_copies(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Token copies a rank sends to experts: k n_l, or what the capacity pads or drops them to. ``[k]``"""
    copies = keys.sharded_tokens(training) * shape.top_k
    return copies * (shape.capacity_factor or 1.0)


def expert_rows(keys: LayerKeys, shape: MoeShape, training: TrainingJob) -> Floats:
    """Rows on the busiest expert-parallel rank: load factor x copies, gathered over etp where tokens are sharded. ``[k]``

    Without sequence parallelism the etp ranks hold the same tokens already, so nothing is gathered. A capacity
    pads every expert alike, which makes the load factor one [megatron-0.12, moe].
    """
    load = np.where((shape.capacity_factor or 0.0) > 0, 1.0, training.expert_load_factor)
    load = np.where(keys.has(Feature.MOE_PAD_TO_CAPACITY), 1.0, load)
    gathered = np.where(keys.sequence_parallel != 0, keys.etp, 1)
    # One rank alone holds every expert: nothing can be uneven.
    load = np.where(keys.ep * keys.etp > 1, load, 1.0)
    return routed_copies(keys, shape, training) * load * gathered

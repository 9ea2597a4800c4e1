"""Layers, compute time and memory of every pipeline rank of one plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.group_memory import group_memory
from cost_models.step.priced_groups import priced_groups
from documents.late_methods import dataclass


@dataclass(frozen=True)
class StageCosts:
    """Costs of each pipeline rank, ``[stage]``.

    ``forward_s`` and ``backward_s`` are of one micro batch over all chunks of the rank. ``memory_bytes`` has the parts of
    ``Breakdown.memory_bytes`` and sums to ``peak_memory_bytes``, both at the rank's own peak.
    """

    num_layers: NDArray[np.int64]
    num_moe_layers: NDArray[np.int64]
    num_embeddings: NDArray[np.int64]
    num_heads: NDArray[np.int64]
    forward_s: Floats
    backward_s: Floats
    peak_memory_bytes: Floats
    memory_bytes: dict[str, Floats]


def stage_costs(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> StageCosts:
    """Time and memory of each pipeline rank of a strategy that is legal for ``any`` target.

    The largest peak equals that of ``cost_models.step.composition.estimate``; the same errors are raised.
    """
    ((_, group),) = priced_groups(workload, StrategyBatch.of([strategy]), constants, merge=False, tables=True)
    stages = group.stages
    memory = group_memory(workload, group, constants, breakdown=True)

    def column(values: Floats) -> Floats:
        return np.broadcast_to(values, (stages.pp, 1))[:, 0]

    return StageCosts(
        num_layers=stages.layers.sum(axis=(0, 2)),
        num_moe_layers=stages.layers[[kind.moe for kind in stages.layer_kinds]].sum(axis=(0, 2)),
        num_embeddings=stages.has_embedding.sum(axis=1),
        num_heads=stages.has_head.sum(axis=1),
        forward_s=column(group.rank.forward),
        backward_s=column(group.rank.backward),
        peak_memory_bytes=column(memory.peak),
        memory_bytes={name: column(part) for name, part in memory.parts.items()},
    )

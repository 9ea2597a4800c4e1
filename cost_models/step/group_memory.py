"""Memory of strategies that share a pipeline, from their priced parts."""

from __future__ import annotations

from cost_models.constants import Constants
from cost_models.memory.peak import MemoryEstimate, held_activations, memory_estimate
from cost_models.shapes.workload import Workload
from cost_models.step.priced_groups import PricedGroup


def group_memory(workload: Workload, group: PricedGroup, constants: Constants, *, breakdown: bool) -> MemoryEstimate:
    """Memory peak of every kind of rank, ``[stage, n]``; nothing that only times a step is priced for it."""
    batch, stages, priced, sharded = group.batch, group.stages, group.priced, group.sharded
    held = held_activations(workload, stages, batch, group.num_microbatches, priced.activations, priced.alike)
    parameters = sharded.parameters, sharded.trained
    return memory_estimate(workload, batch, stages, *parameters, sharded.states, held, constants, breakdown=breakdown)

"""Memory limits of a pipeline rank: the peak of ``memory_estimate`` as upper bounds on sums of kept activations."""

from __future__ import annotations

from itertools import chain

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import LayerActivations
from cost_models.memory.fit import fit_rule
from cost_models.memory.held_layers import KeptLayers, kept_layers, waiting_layers
from cost_models.memory.losses import logits_bytes, loss_bytes
from cost_models.memory.model_states import StageParameters
from cost_models.memory.peak import (
    MemoryEstimate,
    gathered_bytes,
    layers_beside,
    saved_bytes,
    whole_weights_bytes,
)
from cost_models.pipeline.stage_times import chunk_counts
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

ROUNDING_BYTES = 1.0  # safety margin for rounding of sums
IN_ACTIVATIONS = ("recompute_checkpoints", "working_set", "logits", "optimizer_transient")


@dataclass(frozen=True)
class Room:
    """Memory limits of one strategy whose ranks are all separate kinds.

    A rank fits if at every moment ``in_flight`` ``[moment, chunk, rank]`` times the bytes that each chunk keeps of a micro
    batch, plus ``fixed_bytes`` ``[moment, rank]``, plus a working set is at most ``most_bytes`` ``[rank]``. The working set is
    the maximum of ``least_bytes`` ``[rank]`` and of ``beside_bytes`` ``[rank]`` plus the working set of its layers. If
    ``most_bytes`` is negative, no choice fits.
    """

    in_flight: Floats
    fixed_bytes: Floats
    least_bytes: Floats
    beside_bytes: Floats
    most_bytes: Floats


def room(
    workload: Workload,
    stages: Stages,
    batch: StrategyBatch,
    num_microbatches: Floats,
    activations: tuple[LayerActivations, ...],
    parameters: StageParameters,
    trained: StageParameters,
    peak: MemoryEstimate,
    constants: Constants,
) -> Room:
    """Limits under which every rank of one strategy fits, for any choice of kept tensors.

    Parameters
    ----------
    stages
        Every rank is its own kind.
    batch : ``[1]``
        The strategy, without recompute.
    num_microbatches : ``[1]``
    activations : ``[1]``
        Activation memory of a layer of each kind that keeps everything.
    peak : ``[stage, 1]``, bytes
        Of the same strategy, with its parts.
    """
    chunks = chunk_counts(stages, batch)
    before, after = kept_layers(workload, stages, batch, chunks), waiting_layers(stages, batch, chunks)
    none = np.zeros((stages.num_kinds, 1))
    in_flight, fixed = [], []
    moments = stages.schedule.rules.in_flight(stages, num_microbatches, batch.group_size, True)
    for moment in chain.from_iterable(some.each() for some in moments):
        held = [np.broadcast_to(count, none.shape) for count in moment.forwards]
        pairs = [(count, before.chunk(chunk)) for chunk, count in enumerate(held)]
        if stages.schedule.rules.splits_backward:
            waits = enumerate(moment.weights)
            pairs += [(np.broadcast_to(count, none.shape), after.chunk(chunk)) for chunk, count in waits]
        columns = zip(*(each.columns for _, each in pairs), strict=True)
        counts = [count for count, _ in pairs]
        summed = KeptLayers.of_columns([sum((c * one for c, one in zip(counts, each, strict=True)), none) for each in columns])
        apart = summed._replace(layers=(none,) * len(summed.layers), losses=none + moment.losses)
        fixed.append(saved_bytes(apart, activations) + apart.inputs * activations[0].input_bytes)
        fixed[-1] = fixed[-1] + loss_bytes(workload, batch, apart, activations[0].input_bytes)
        in_flight.append([count[:, 0] for count in held])
    # A merged pair holds one layer more, whatever it keeps: a layer that keeps everything is the most.
    merged = layers_beside(stages, batch) * np.max([each.saved_bytes for each in activations], axis=0)
    whole = whole_weights_bytes(workload, batch, parameters)
    pool = peak.parts["allocator_pool"]
    outside, slope = peak.peak - peak.allocated - pool, 1.0 + pool / peak.allocated
    of_passes = [each for name, each in peak.parts.items() if name.startswith("activations_") or name in IN_ACTIVATIONS]
    steady = peak.allocated - sum(of_passes, none)
    most = (fit_rule(workload, constants).fit_limit_bytes - outside) / slope - steady - ROUNDING_BYTES
    return Room(
        in_flight=np.array(in_flight),
        fixed_bytes=np.array(fixed)[:, :, 0],
        least_bytes=(stages.is_last * (logits_bytes(workload, batch, activations[0].input_bytes) + whole))[:, 0],
        beside_bytes=np.broadcast_to(gathered_bytes(workload, batch, parameters, trained) + merged, none.shape)[:, 0],
        most_bytes=np.where(peak.parts["optimizer_transient"] > most, -1.0, most)[:, 0],
    )

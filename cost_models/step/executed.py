"""What one device of every pipeline rank holds and multiplies in a step, as a run of the framework counts it."""

from __future__ import annotations

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import layer_activations
from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.memory.losses import loss_bytes
from cost_models.memory.peak import held_activations
from cost_models.memory.whole_tensors import Taken
from cost_models.shapes.flops import layer_flops_per_token
from cost_models.shapes.layer_keys import Floats, layer_keys
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import LayerKind, Workload
from cost_models.step.group_memory import group_memory
from cost_models.step.orthogonalising import newton_schulz_flops
from cost_models.step.priced_groups import priced_groups
from documents.late_methods import dataclass

OUTSIDE_THE_ALLOCATOR = ("allocator_pool", "communicators", "runtime")


@dataclass(frozen=True)
class ExecutedCounts:
    """Counts of each pipeline rank, ``[stage]``.

    ``layer_bytes`` is what a layer of each kind keeps for its backward of one micro batch. ``held_bytes`` is the most that is
    held between two passes beside the model's states and without the running loss, ``loss_bytes`` what that loss holds, and
    ``peak_bytes`` what the allocator has given out at most, states included. ``forward_flops`` are of the matmuls and causal
    attention of all micro batches of the step, without router and recompute. States and ``optimizer_flops``, which orthogonalise
    matrices, are of the first of the ranks that share a state. ``contents`` tells ranks apart: layers of each kind
    and chunk, embedding, head, MTP.
    """

    num_microbatches: int
    parameters: Floats
    expert_parameters: Floats
    weight_bytes: Floats
    gradient_bytes: Floats
    master_bytes: Floats
    moment_bytes: Floats
    layer_bytes: dict[LayerKind, float]
    held_bytes: Floats
    loss_bytes: float
    peak_bytes: Floats
    forward_flops: Floats
    optimizer_flops: Floats
    contents: tuple[tuple[int, ...], ...]


def executed_counts(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> ExecutedCounts:
    """Counts of a strategy that is legal for ``any`` target; raises the errors of ``cost_models.step.composition.estimate``."""
    batch = StrategyBatch.of([strategy])
    ((_, group),) = priced_groups(workload, batch, constants, merge=False, tables=True)
    stages, sharded = group.stages, group.sharded
    held = held_activations(workload, stages, batch, group.num_microbatches, group.priced.activations, group.priced.alike)
    memory = group_memory(workload, group, constants, breakdown=True)
    outside = sum((memory.parts[name] for name in OUTSIDE_THE_ALLOCATOR), np.zeros_like(memory.peak))
    between = held.saved_bytes + held.checkpoints + held.losses + memory.parts["module_buffers"]
    if strategy.pp > 1:  # the first stage names what it sends next, and a gradient [megatron-0.12, schedules.py]
        between = between + stages.is_first * 2.0 * held.activations[0].input_bytes
    if strategy.sequence_parallel and strategy.tp > 1:  # a buffer for the head's gathered input stays [megatron-0.12, utils.py]
        tokens = workload.training.seq_length * strategy.micro_batch_size / strategy.cp
        between = between + stages.is_last * ELEMENT_BYTES * tokens * workload.model.hidden_size
    states, layers, optimizer = sharded.states_of_first, held.layers, workload.training.optimizer
    beyond = sharded.states.total - states.total
    one_loss = layers._replace(losses=np.ones_like(layers.losses), waiting_heads=np.zeros_like(layers.waiting_heads))

    def column(values: Floats) -> Floats:
        return np.broadcast_to(values, (stages.pp, 1))[:, 0]

    contents = np.concatenate([*stages.layers, stages.has_embedding, stages.has_head, stages.has_mtp], axis=1)
    keys, _ = layer_keys(workload, batch)
    return ExecutedCounts(
        num_microbatches=int(group.num_microbatches[0]),
        parameters=column(sharded.parameters.dense),
        expert_parameters=column(sharded.parameters.experts),
        weight_bytes=column(states.weights),
        gradient_bytes=column(states.gradients),
        master_bytes=column(states.master),
        moment_bytes=column(states.moments),
        layer_bytes={
            kind: float(layer_activations(workload.of_kind(kind), keys, moe=kind.moe, local=kind.local).saved_bytes[0])
            for kind in workload.model.layer_kinds()
        },
        held_bytes=column(between),
        loss_bytes=float(loss_bytes(workload, batch, one_loss, held.activations[0].input_bytes).max()),
        peak_bytes=column(memory.peak - outside - beyond),
        forward_flops=_forward_flops(
            workload, strategy, stages.layers.sum(axis=2), stages.layer_kinds, column(stages.is_last), column(stages.is_mtp)
        )
        * float(group.num_microbatches[0]),
        optimizer_flops=column(sharded.of_matrices(lambda each: newton_schulz_flops(each, optimizer), Taken.FIRST)),
        contents=tuple(tuple(int(value) for value in rank) for rank in contents),
    )


def _forward_flops(
    workload: Workload, strategy: ParallelStrategy, layers: Floats, kinds: tuple[LayerKind, ...], heads: Floats, modules: Floats
) -> Floats:
    """Of one micro batch on one device, ``[stage]``; ``layers`` is ``[layer kind, stage]``. The head runs for the modules too."""
    model, training = workload.model, workload.training
    tokens = training.seq_length * strategy.micro_batch_size / (strategy.cp * strategy.tp)
    length = training.attended_length
    each = [layer_flops_per_token(model.of_kind(kind), length, moe=kind.moe, local=kind.local) for kind in kinds]
    head = 2.0 * model.hidden_size * model.vocab_size
    last = model.kinds_of_layers()[-1]
    mtp = layer_flops_per_token(model.of_kind(last), length, moe=last.moe, local=last.local) + 4.0 * model.hidden_size**2
    beside = heads * head * (1 + model.mtp_num_layers) + modules * model.mtp_num_layers * mtp
    flops: Floats = tokens * (
        sum((number * one for number, one in zip(layers, each, strict=True)), np.zeros(len(heads))) + beside
    )
    return flops

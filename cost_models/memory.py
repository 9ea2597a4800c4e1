"""Peak device memory of every pipeline rank: one function decides what fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cost_models.activations import LayerActivations
from cost_models.constants import Constants
from cost_models.in_flight import chunks_in_flight, num_turns
from cost_models.layer_keys import Floats, distinct_rows
from cost_models.model_states import SWAP_OPTIMIZER_TIMES, WEIGHT_BYTES, ModelStates, StageParameters, gradient_bytes
from cost_models.stages import Stages
from cost_models.strategy import RecomputeMethod, StrategyBatch
from cost_models.workload import Workload

# A head: 16-bit logits and their FP32 copy [megatron-0.12, cross_entropy.py]; eager code on Ascend also keeps that less its
# maximum, which a fused kernel or a compiled graph does not.
LOGIT_BYTES, EAGER_ASCEND_LOGIT_BYTES = 6, 10
DROPLESS_POOL_FACTOR = 2.0  # sizes that change every step fragment the pool more [mindspeed]
P2P_BUFFER_BYTES = 2 * 20 * 2**20  # send and receive buffer of a neighbour pair [cann, P2P_HCCL_BUFFSIZE]


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes ``[stage, n]``; see ``Estimate`` for what each total means.

    ``parts`` sums to ``peak``, and is empty without a breakdown.
    """

    after_step: Floats
    allocated: Floats
    first_iteration: Floats
    reserved: Floats
    peak: Floats
    parts: dict[str, Floats]


@dataclass(frozen=True)
class Held:
    """Activations in flight on each stage, ``[stage, n]``: how many layers keep their saved set, and what is held besides."""

    dense_layers: Floats  # layers times micro batches in flight
    moe_layers: Floats
    dense: LayerActivations
    moe: LayerActivations | None
    checkpoints: Floats
    working_set: Floats

    @property
    def saved_bytes(self) -> Floats:
        """Saved sets of all layers in flight."""
        dense: Floats = self.dense_layers * self.dense.saved_bytes
        return dense if self.moe is None else dense + self.moe_layers * self.moe.saved_bytes

    @property
    def classes(self) -> dict[str, Floats]:
        """The same by tensor class."""
        dense = {name: self.dense_layers * each for name, each in self.dense.saved.items()}
        if self.moe is None:
            return dense
        return {name: part + self.moe_layers * self.moe.saved[name] for name, part in dense.items()}


@dataclass(frozen=True)
class _HeldLayers:
    """``[stage, n]``: layers times micro batches in flight, checkpoints, and how many layers a recompute expands at once."""

    dense: Floats
    moe: Floats
    inputs: Floats
    dense_expanded: Floats
    moe_expanded: Floats


def _held_layers(stages: Stages, batch: StrategyBatch, num_microbatches: Floats) -> _HeldLayers:
    zero = np.zeros((stages.num_kinds, len(batch)))
    dense_expanded, moe_expanded = zero, zero
    group = np.maximum(batch.recompute_num_layers, 1).astype(np.float64)
    uniform = batch.recompute_method == int(RecomputeMethod.UNIFORM)
    again = [stages.recomputed(chunk, batch) for chunk in range(stages.vpp)]
    for dense_again, moe_again in again:
        at_once = np.where(uniform, np.minimum(group, dense_again + moe_again), 1.0)
        dense_expanded = np.maximum(dense_expanded, np.where(dense_again > 0, at_once, 0.0))
        moe_expanded = np.maximum(moe_expanded, np.where(moe_again > 0, at_once, 0.0))
    # Where the chunks of a rank differ, a later composition may be heavier than the first; the maxima are taken apart,
    # which errs on the safe side.
    differ = (stages.dense != stages.dense[:, :1]).any() or (stages.moe != stages.moe[:, :1]).any()
    most = _HeldLayers(zero, zero, zero, dense_expanded, moe_expanded)
    for turn in range(num_turns(stages.vpp) if differ else 1):
        dense, moe, inputs = zero, zero, zero
        for chunk, (dense_again, moe_again) in enumerate(again):
            count = chunks_in_flight(stages.first_rank, chunk, stages.pp, stages.vpp, num_microbatches, turn)
            dense = dense + count * (stages.dense[:, chunk, None] - dense_again)
            moe = moe + count * (stages.moe[:, chunk, None] - moe_again)
            recomputed = dense_again + moe_again
            inputs = inputs + count * np.where(uniform, np.ceil(recomputed / group), recomputed)
        most = _HeldLayers(
            np.maximum(most.dense, dense),
            np.maximum(most.moe, moe),
            np.maximum(most.inputs, inputs),
            dense_expanded,
            moe_expanded,
        )
    if stages.mtp_layers:
        count = chunks_in_flight(stages.first_rank, stages.vpp - 1, stages.pp, stages.vpp, num_microbatches)
        extra = stages.is_last * count * stages.mtp_layers
        most = replace(most, moe=most.moe + extra) if stages.last_layer_is_moe else replace(most, dense=most.dense + extra)
    return most


def held_activations(
    stages: Stages, batch: StrategyBatch, num_microbatches: Floats, dense: LayerActivations, moe: LayerActivations | None
) -> Held:
    """Activations that a rank holds at its peak, recompute considered.

    Every chunk in flight keeps the saved set of its ordinary layers and one input for every checkpoint of its
    recomputed layers; one recomputed layer (a whole group under the uniform method) is expanded at a time.
    Layers are counted once per distinct number of micro batches and extent of recompute.
    """
    extent = [batch.recompute, batch.recompute_method, batch.recompute_num_layers]
    first, index = distinct_rows([num_microbatches.astype(np.int64), *extent])
    few = _held_layers(stages, batch.take(first), num_microbatches[first])
    working = few.dense_expanded[:, index] * dense.unreduced_bytes
    transient = np.where(stages.dense.sum(axis=1)[:, None] > 0, dense.transient_bytes, 0.0)
    if moe is not None:
        working = np.maximum(working, few.moe_expanded[:, index] * moe.unreduced_bytes)
        transient = np.maximum(transient, np.where(stages.moe.sum(axis=1)[:, None] > 0, moe.transient_bytes, 0.0))
    checkpoints = few.inputs[:, index] * dense.input_bytes
    return Held(few.dense[:, index], few.moe[:, index], dense, moe, checkpoints, working + transient)


def num_communicators(workload: Workload, batch: StrategyBatch) -> Floats:
    """Process groups of a rank that issue collectives, each with its own buffers. ``[n]``

    World, tp, cp (two for hybrid), data parallel, pp, model parallel (gradient norm), ep, expert data parallel
    [megatron-0.12, parallel_state.py]. Upper bound: HCCL creates a communicator at its first use [cann].
    """
    moe = workload.model.moe is not None
    replicas = batch.dp * batch.cp
    experts = np.maximum(batch.tp * replicas // (batch.ep * batch.etp), 1)
    groups = [
        np.full(len(batch), workload.cluster.num_devices > 1),
        batch.tp > 1,
        batch.cp > 1,
        (batch.ulysses_degree > 1) & (batch.ulysses_degree < batch.cp),
        replicas > 1,
        batch.pp > 1,
        batch.tp * batch.pp > 1,
        (batch.pp > 1) & workload.model.tied_embeddings,
        (batch.ep > 1) & moe,
        (batch.etp > 1) & moe,
        (experts > 1) & moe,
    ]
    return sum((g.astype(np.float64) for g in groups), np.zeros(len(batch)))


def memory_estimate(
    workload: Workload,
    batch: StrategyBatch,
    stages: Stages,
    parameters: StageParameters,
    states: ModelStates,
    held: Held,
    constants: Constants,
    *,
    breakdown: bool = True,
) -> MemoryEstimate:
    """Peak of every stage: states + max(forward and backward, optimizer) + pool + communicators + runtime.

    The two peaks never add up: activations are gone when the optimizer runs. In the first iteration the moments do
    not exist before the optimizer creates them, which is what framework logs of a first step show.
    """
    profile, model = workload.cluster.profile, workload.model
    tokens = workload.training.seq_length * batch.micro_batch_size / batch.cp
    heads = 1 + model.mtp_num_layers
    eager = workload.software.execution == "eager"
    logit_bytes = EAGER_ASCEND_LOGIT_BYTES if eager and profile.family == "ascend" else LOGIT_BYTES
    logits = stages.is_last * logit_bytes * tokens * model.vocab_size / batch.tp * heads
    # ZeRO-3 holds the weights of the running layer and of the next, and the gradients that it is about to scatter.
    layer_bytes = 2.0 * WEIGHT_BYTES + gradient_bytes(workload, batch)
    gathered = np.where(batch.zero_stage == 3, layer_bytes * parameters.largest_layer, 0.0)
    activations = held.saved_bytes + held.checkpoints + held.working_set + logits + gathered
    optimizer = 4.0 * parameters.largest_tensor + states.gradient_copies + states.swapped / SWAP_OPTIMIZER_TIMES
    in_backward = activations >= optimizer
    steady = states.total
    allocated = steady + np.maximum(activations, optimizer)
    first = np.maximum(steady - states.moments + activations, steady + optimizer)
    dropless = model.moe is not None and not model.moe.capacity_factor
    # A compiled graph plans its memory ahead and needs no pool on top.
    pool = constants.allocator_fraction * (DROPLESS_POOL_FACTOR if dropless else 1.0) * (1.0 if eager else 0.0)
    reserved = allocated * (1.0 + pool)
    communicators = num_communicators(workload, batch) * profile.communicator_bytes
    communicators = communicators + np.where(batch.pp > 1, P2P_BUFFER_BYTES if profile.family == "ascend" else 0, 0)
    parts: dict[str, Floats] = (
        {}
        if not breakdown
        else {
            "weights": states.weights,
            "gradients": states.gradients,
            "optimizer_master_weights": states.master,
            "optimizer_moments": states.moments,
            **{f"activations_{name}": np.where(in_backward, value, 0.0) for name, value in held.classes.items()},
            "recompute_checkpoints": np.where(in_backward, held.checkpoints, 0.0),
            "working_set": np.where(in_backward, held.working_set + gathered, 0.0),
            "logits": np.where(in_backward, logits, 0.0),
            "optimizer_transient": np.where(in_backward, 0.0, optimizer),
            "allocator_pool": allocated * pool,
            "communicators": np.broadcast_to(communicators, allocated.shape),
            "runtime": np.full(allocated.shape, profile.context_bytes),
        }
    )
    return MemoryEstimate(
        after_step=steady + states.gradient_copies,
        allocated=allocated,
        first_iteration=first,
        reserved=reserved,
        peak=reserved + communicators + profile.context_bytes,
        parts=parts,
    )

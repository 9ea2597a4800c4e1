"""Peak device memory of every pipeline rank. This estimate alone decides what fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.constants import Constants
from cost_models.layer.activations import ALIBI_BYTES, LayerActivations
from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_factor
from cost_models.memory.held_layers import KeptLayers, expanded_layers, kept_layers, layers_in_flight
from cost_models.memory.losses import logits_bytes, loss_bytes, weight_gradient_bytes
from cost_models.memory.model_states import (
    SWAP_OPTIMIZER_TIMES,
    WEIGHT_BYTES,
    ModelStates,
    StageParameters,
    gradient_bytes,
    scatters_each_micro_batch,
)
from cost_models.pipeline.stage_times import LayerCounts, chunk_counts
from cost_models.pipeline.stages import Stages
from cost_models.shapes.fully_sharded import (
    has_units,
    held_chunks_fraction,
    keeps_whole_stages,
    layers_ahead,
    layers_queued,
    shards_each_layer,
)
from cost_models.shapes.layer_keys import Floats, data_parallel_sizes, distinct_rows
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import IntColumn, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

DROPLESS_POOL_FACTOR = 2.0  # sizes that change every step fragment the pool more [mindspeed]
LEAST_POOL_FRACTION = 0.005  # fraction of the pool that is left when memory runs out: median of failed allocations [npu-oom]


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory in bytes ``[stage, n]``; ``Estimate`` explains each total.

    ``parts`` sums to ``peak``, and is empty without a breakdown.
    """

    after_step: Floats
    allocated: Floats
    first_iteration: Floats
    reserved: Floats
    peak: Floats
    pooled: Floats
    parts: dict[str, Floats]


@dataclass(frozen=True)
class Held:
    """Activations in flight on each stage, bytes ``[stage, n]``.

    ``layers`` ``[stage, k]`` keep their saved sets; with the needs of waiting weight gradients these are ``saved_bytes``.
    ``of_row``
    ``[n]`` is the column of each row. ``checkpoints`` are inputs of recomputed layers, or groups of them. ``losses`` belong to
    micro batches other than the running one. ``expanded`` is what a backward recomputes, while it runs. ``transient`` are buffers
    of the running layer. ``activations`` has an entry for each kind of layer, ``[n]``.
    """

    layers: KeptLayers
    of_row: IntColumn
    activations: tuple[LayerActivations, ...]
    saved_bytes: Floats
    checkpoints: Floats
    losses: Floats
    expanded: Floats
    transient: Floats

    @property
    def working_set(self) -> Floats:
        """Bytes held while layers run, without activations in flight, ``[stage, n]``."""
        return self.expanded + self.transient

    @property
    def classes(self) -> dict[str, Floats]:
        """``saved_bytes`` by tensor class, in bytes ``[stage, n]``."""
        layers = self.layers.take(self.of_row)
        kinds = list(zip(layers.layers, layers.waiting, self.activations, strict=True))
        parts: dict[str, Floats] = {}
        for name in self.activations[0].saved:
            first, *more = (held * each.saved[name] + waiting * each.waiting[name] for held, waiting, each in kinds)
            parts[name] = sum(more, first)
        return parts


def saved_bytes(layers: KeptLayers, activations: tuple[LayerActivations, ...]) -> Floats:
    """Bytes of layers that are kept whole, and of waiting weight gradients, ``[stage, n]``.

    Parameters
    ----------
    layers : ``[stage, n]``
        Layers in flight.
    activations : ``[n]``
        Of a layer of each kind.
    """
    first, *more = (number * each.saved_bytes for number, each in zip(layers.layers, activations, strict=True))
    waiting = zip(layers.waiting, activations, strict=True)
    more += [number * each.waiting_bytes for number, each in waiting if number.any()]
    held: Floats = sum(more, first)
    return held


def held_activations(
    workload: Workload,
    stages: Stages,
    batch: StrategyBatch,
    num_microbatches: Floats,
    activations: tuple[LayerActivations, ...],
    alike: IntColumn | None = None,
) -> Held:
    """Activations that a rank holds at its peak, with recompute.

    Every chunk in flight keeps the saved set of its ordinary layers, and one input for every checkpoint of its recomputed layers.
    One recomputed layer (a whole group under the uniform method) is expanded at a time, when the backward has freed the ordinary
    layers after it, unless their weight gradients wait. From then on a micro batch keeps what its weight gradients need, of all
    layers. Waiting losses are held in addition to the running one. All of this is computed once for each distinct number of micro
    batches, extent of recompute and layer.

    Parameters
    ----------
    num_microbatches : ``[n]``
    activations : ``[n]``
        Of a layer of each kind.
    alike : ``[n]``
        Equal if layers keep the same (``PricedKeys.alike``). ``None``: no two are equal.
    """
    micro_batches = num_microbatches.astype(np.int64)
    extent = [batch.recompute, batch.recompute_method, batch.recompute_num_layers, batch.microbatch_group_size_per_vp_stage]
    has_mask = workload.software.loader_mask
    if has_mask or workload.model.mtp_num_layers:  # then kept inputs are of their own size
        extent += [batch.recompute_modules, batch.tp, batch.sequence_parallel]
    of_rows, of_few = distinct_rows([micro_batches, *extent])
    rows, few_of_row = (np.arange(len(batch)),) * 2 if alike is None else distinct_rows([of_few, alike])
    few, index, layer = batch.take(of_rows), of_few[rows], tuple(_sums(each, rows) for each in activations)
    rows_batch, chunks = batch.take(rows), chunk_counts(stages, few)
    input_bytes = layer[0].input_bytes  # checkpoints of all layers have the same size
    of_chunks = kept_layers(workload, stages, few, chunks)
    if has_mask:
        of_chunks = of_chunks._replace(inputs=of_chunks.inputs + masks_kept(workload, stages, few, chunks))
    pairs = stages.schedule.rules.pairs
    if workload.device_traits.merged_pairs_keep_outputs and pairs is not None and pairs.of_other_chunk:
        of_chunks = of_chunks._replace(inputs=of_chunks.inputs + layers_beside(stages, few) * (sum(chunks.layers) > 0))

    most_bytes, most = np.array(-1.0), None
    for moments in layers_in_flight(stages, few, num_microbatches[of_rows], chunks, of_chunks, len(rows)):
        kept = moments.take(index)
        kept_bytes = saved_bytes(kept, layer) + kept.inputs * input_bytes + loss_bytes(workload, rows_batch, kept, input_bytes)
        fullest = kept_bytes.argmax(axis=0)
        chosen, bytes_then = kept.at(fullest), kept_bytes.max(axis=0)
        most = chosen if most is None else chosen.where(bytes_then > most_bytes, most)
        most_bytes = np.maximum(most_bytes, bytes_then)
    assert most is not None  # every schedule has a peak
    expanded = transient = np.zeros((stages.num_kinds, len(rows)))
    held = stages.with_mtp(tuple(stages.layers.astype(np.float64)), stages.has_mtp.astype(np.float64))
    beside = layers_beside(stages, rows_batch)
    for layers, at_once, each in zip(held, expanded_layers(stages, few, chunks), layer, strict=True):
        expanded = np.maximum(expanded, at_once.take(index, axis=1) * each.unreduced_bytes)
        running = each.transient_bytes + beside * each.saved_bytes
        transient = np.maximum(transient, np.where(layers.sum(axis=1)[:, None] > 0, running, 0.0))
    if not stages.schedule.rules.splits_backward and (few.recompute == int(Recompute.FULL)).any():
        again = np.sum(chunks.again, axis=0).take(index, axis=-1)
        freed = np.where(again > 0, saved_bytes(of_chunks.take(index), layer), np.inf).min(axis=0)
        expanded = np.maximum(expanded - freed, 0.0)
    losses = loss_bytes(workload, rows_batch, most, input_bytes)
    parts = saved_bytes(most, layer), most.inputs * input_bytes, losses
    shape = expanded.shape
    columns = (np.broadcast_to(part, shape).take(few_of_row, axis=1) for part in (*parts, expanded, transient))
    return Held(most, few_of_row, activations, *columns)


def loader_mask_bytes(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of the mask that a micro batch brings to a device: one an entry, of the rank's part of the sequence. ``[n]``"""
    if not workload.software.loader_mask:
        return np.zeros(len(batch))
    held: Floats = batch.micro_batch_size * float(workload.training.seq_length) ** 2 / batch.cp
    return held


def keeps_mask(batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether the mask waits for the backward: recomputed layers and cores of attention keep it with their inputs. ``[n]``

    All layers of a micro batch share it [megatron-0.12, transformer_block.py, attention.py].
    """
    core = (batch.recompute_modules & int(RecomputeModule.CORE_ATTN)) != 0
    keeps: NDArray[np.bool_] = (batch.recompute == int(Recompute.FULL)) | core
    return keeps


def masks_kept(workload: Workload, stages: Stages, batch: StrategyBatch, chunks: LayerCounts) -> Floats:
    """The mask that one micro batch keeps on each chunk for its backward, in inputs of a layer, ``[chunk, stage, n]``."""
    inputs = ELEMENT_BYTES * workload.model.hidden_size / np.where(batch.sequence_parallel != 0, batch.tp, 1)
    of_layer = workload.training.seq_length / (element_factor(workload) * inputs)
    takes = (stages.is_first + stages.is_last > 0) & (sum(chunks.layers) > 0)
    held: Floats = np.where(takes & keeps_mask(batch), of_layer, 0.0)
    return held


def layers_beside(stages: Stages, batch: StrategyBatch) -> Floats:
    """Layers that a merged pair keeps whole for its forward before it has freed any of its backward. ``[n]``

    The pair runs layer by layer, so this is one layer [megatron-0.19, model_chunk_schedule_plan.py; mindspeed-fb-overlap,
    transformer_block.py]; none where every layer is recomputed and keeps its input alone.
    """
    pairs = stages.schedule.rules.pairs
    if pairs is None or stages.schedule.rules.num_streams > 1:  # the published counts have both passes of a pair
        return np.zeros(len(batch))
    block = (batch.recompute_method == int(RecomputeMethod.BLOCK)) & (
        batch.recompute_num_layers < stages.layers.sum(axis=0).max()
    )
    keeps = (batch.recompute != int(Recompute.FULL)) | block
    return np.where(stages.merge_pairs & keeps, 1.0, 0.0)


def _sums(activations: LayerActivations, rows: IntColumn) -> LayerActivations:
    """Activation totals of the given rows, without the tensor classes."""
    return replace(activations, saved={}, waiting={}, **{name: column[rows] for name, column in activations.sums.items()})


def process_groups(workload: Workload, batch: StrategyBatch) -> dict[str, Floats]:
    """Ranks of each kind of process group that issues collectives, ``[n]``; 1: there is no such group.

    World, tp, cp (two for hybrid), data parallel, pp, model parallel (gradient norm), the two ends that share an embedding, ep,
    expert data parallel [megatron-0.12, parallel_state.py].
    """
    moe = workload.model.moe is not None
    replicas, experts = data_parallel_sizes(batch)
    has_two = (batch.ulysses_degree > 1) & (batch.ulysses_degree < batch.cp)
    one = np.ones(len(batch))
    return {
        "world": one * workload.cluster.num_devices,
        "tp": batch.tp * one,
        "cp": batch.cp * one,
        "ulysses": np.where(has_two, batch.ulysses_degree, one),
        "dp": replicas * one,
        "pp": batch.pp * one,
        "model": batch.tp * batch.pp * one,
        "embedding": np.where((batch.pp > 1) & workload.model.tied_embeddings, 2.0, one),
        "ep": batch.ep * one if moe else one,
        "etp": batch.etp * one if moe else one,
        "edp": experts * one if moe else one,
    }


def num_communicators(workload: Workload, batch: StrategyBatch) -> Floats:
    """Number of process groups of a rank that issue collectives; each has its own buffers. ``[n]``

    Upper bound: HCCL creates a communicator at its first use [cann].
    """
    return sum(((size > 1.0).astype(np.float64) for size in process_groups(workload, batch).values()), np.zeros(len(batch)))


def gathered_bytes(workload: Workload, batch: StrategyBatch, parameters: StageParameters, trained: StageParameters) -> Floats:
    """Bytes of parameters and gradients that live while a layer runs. ``[stage, n]``

    They are the gradient of the largest trained tensor, gradients of the largest layer if they are scattered at once, under
    ZeRO-3 the weights of the layer and of those that are gathered ahead (``layers_ahead``), and a quantised weight in 16 bits
    while its matmul runs. ZeRO-3 counts quantised weights as 16 bits. ``whole_weights_bytes`` are included.
    ``keeps_whole_stages`` add the gradients of a whole layer at its end [pytorch, _fsdp_param_group.py].
    """
    scattered = np.where(scatters_each_micro_batch(workload, batch), gradient_bytes(workload, batch), 0.0)
    keeps = keeps_whole_stages(workload, batch)
    shards = shards_each_layer(workload, batch)
    gathered = np.where(shards, element_factor(workload) * WEIGHT_BYTES, 0.0)
    ahead = parameters.largest_layer
    if has_units(workload) and shards.any():
        ahead = parameters.mean_layer * layers_ahead(workload, parameters.mean_layer, parameters.layers)
    new = np.where(keeps, trained.largest_layer, trained.largest_tensor)
    held = scattered * trained.largest_layer + weight_gradient_bytes(workload) * new
    if workload.training.task.dequantises:
        held = held + WEIGHT_BYTES * parameters.largest_matrix
    return gathered * (parameters.largest_layer + ahead) + held + whole_weights_bytes(workload, batch, parameters)


def whole_weights_bytes(workload: Workload, batch: StrategyBatch, parameters: StageParameters) -> Floats:
    """Bytes of weights that sharded PyTorch keeps gathered from the forward to the backward under ZeRO-2. ``[stage, n]``

    It is 0 for other stacks, whose ZeRO-2 does not divide the weights [pytorch-fsdp, section 3.3]. ``keeps_whole_stages`` have
    them under ZeRO-3 as well: at the end of a backward all are there. Under ZeRO-3 with units (``has_units``) they are
    those outside of layers.
    """
    gathered = ((batch.zero_stage == 2) & workload.software_traits.fp32_shards) | keeps_whole_stages(workload, batch)
    each = np.where(gathered, element_factor(workload) * WEIGHT_BYTES * held_chunks_fraction(workload, batch), 0.0)
    return each * (parameters.dense + parameters.experts) + _kept_ends_bytes(workload, batch, parameters)


def _kept_ends_bytes(workload: Workload, batch: StrategyBatch, parameters: StageParameters) -> Floats:
    kept = shards_each_layer(workload, batch) & has_units(workload)
    return np.where(kept, element_factor(workload) * WEIGHT_BYTES * parameters.ends, 0.0)


def waiting_gradients_bytes(
    workload: Workload, batch: StrategyBatch, is_last: Floats, trained: StageParameters, freed_bytes: Floats
) -> tuple[Floats, Floats]:
    """Bytes of whole gradients that wait to be scattered, beside those of the running layer, ``[stage, n]`` each.

    Of the head, whose backward comes first; and the most that wait while a layer runs: the head's and some layers', or more
    layers' once the head's are given back, less the activations that their backwards have freed by then. Both are 0 unless
    gradients are scattered at once and only layers are units (``has_units``).

    Parameters
    ----------
    is_last : ``[stage, 1]``
        Number of output heads.
    freed_bytes : ``[stage, n]``
        Activations that the backward of one layer gives back.
    """
    waits = scatters_each_micro_batch(workload, batch) & has_units(workload)
    if not waits.any():  # as in most searches
        return np.zeros_like(trained.dense), np.zeros_like(trained.dense)
    each = np.where(waits & (not workload.training.task.is_frozen), gradient_bytes(workload, batch), 0.0)
    head = is_last * (workload.model.vocab_size * workload.model.hidden_size / batch.tp)
    layer = np.maximum(each * trained.mean_layer - freed_bytes, 0.0)
    with_head, later = (layers_queued(workload, batch, trained.mean_layer, trained.layers, before) for before in (head, 0.0))
    return each * head, np.maximum(each * head + with_head * layer, later * layer)


def module_buffers(workload: Workload, batch: StrategyBatch, stages: Stages, layer: LayerActivations) -> Floats:
    """Bytes that modules keep in addition to model states and activations in flight. ``[stage, n]``

    Every chunk but the first of the model holds its last input and the gradient of it [megatron-0.12, schedules.py]. Attention
    older than Megatron-Core's keeps a mask of s x s in each layer. A position bias is built once for the heads of a rank and once
    for those of a micro batch [mindspeed-attention]. All layers of a graph share the mask of all scores, which MindFormers builds
    for every sample of a micro batch [mindformers-1.8]; a compiled graph has this mask only. A loader's mask is there while a
    forward runs; ``masks_kept`` are those that wait.

    Parameters
    ----------
    layer : ``[n]``
        A layer of any kind: stages send its input to each other.
    """
    if not workload.software_traits.eager:
        whole = workload.reads_whole_mask & batch.has(Feature.FLASH_ATTENTION) & (batch.cp == 1)
        held = np.where(whole, batch.micro_batch_size * float(workload.training.seq_length) ** 2, 0.0)
        return np.broadcast_to(held, (stages.num_kinds, len(batch)))
    relayed = stages.relays[1].sum(axis=1)[:, None]  # MTP outputs are kept too
    received = np.where(batch.pp > 1, stages.num_chunks - stages.is_first + relayed, 0.0)
    buffers: Floats = received * 2.0 * layer.input_bytes
    running = np.where(keeps_mask(batch), 0.0, loader_mask_bytes(workload, batch))
    buffers = buffers + (stages.is_first + stages.is_last > 0) * running
    mask = np.where(batch.has(Feature.FLASH_ATTENTION), (workload.training.seq_length / batch.cp) ** 2.0, 0.0)
    if workload.software.legacy_layers:
        buffers = buffers + stages.layers.sum(axis=(0, 2))[:, None] * mask
    if workload.model.alibi:
        heads = workload.model.num_attention_heads / batch.tp
        buffers = buffers + ALIBI_BYTES * (1 + batch.micro_batch_size) * heads * mask
    return buffers


def optimizer_transient_bytes(workload: Workload, batch: StrategyBatch, trained: StageParameters, states: ModelStates) -> Floats:
    """Bytes that the optimizer holds besides model states while it runs. ``[stage, n]``

    Whole tensors are gathered into new ones, unless the next forward gathers them [megatron-0.19, layer_wise_optimizer.py].
    Embedding and head that stay gathered may keep their memory (``SoftwareTraits.keeps_ends_year``).
    """
    of_tensor = np.maximum(FP32_BYTES * trained.largest_shard, states.working)
    held: Floats = of_tensor + states.gradient_copies + states.swapped / SWAP_OPTIMIZER_TIMES
    if workload.training.optimizer.rules.orthogonalises:
        at_once = (batch.zero_stage > 0) & ~batch.has(Feature.OVERLAP_PARAM_GATHER)
        gathered = np.where(at_once, WEIGHT_BYTES * np.maximum(trained.dense, trained.experts), 0.0)
        held = np.maximum(held, gathered + states.gradient_copies)
    if workload.software.has_since(workload.software_traits.keeps_ends_year):
        held = held + _kept_ends_bytes(workload, batch, trained)
    return held


def _pools(workload: Workload, allocated: Floats, outside: Floats, constants: Constants) -> tuple[Floats, Floats]:
    """Allocator bytes beyond allocations: the least that it needs, and the size that it grows to. ``[stage, n]``

    The pool grows while memory is free. Before an allocation fails, its unused blocks are returned [pytorch-allocator], so only
    the least counts in the peak that decides what fits. If every micro batch allocates the sizes of the one before on one
    stream, it reuses their blocks, and the pool stays at the least. A compiled graph plans its memory ahead and needs no pool.
    """
    if not workload.software_traits.eager:
        return np.zeros_like(allocated), np.zeros_like(allocated)
    moe = workload.model.moe
    dropless = moe is not None and not moe.capacity_factor
    factor = DROPLESS_POOL_FACTOR if dropless else 1.0
    most = LEAST_POOL_FRACTION if workload.software_traits.repeats_allocations and not dropless else 1.0
    wanted = allocated * factor * min(constants.allocator_fraction, most)
    least = np.minimum(allocated * factor * LEAST_POOL_FRACTION, wanted)
    free = workload.cluster.profile.usable_hbm_bytes - outside - allocated
    return least, np.clip(free, least, wanted)


def memory_estimate(
    workload: Workload,
    batch: StrategyBatch,
    stages: Stages,
    parameters: StageParameters,
    trained: StageParameters,
    states: ModelStates,
    held: Held,
    constants: Constants,
    *,
    breakdown: bool = True,
) -> MemoryEstimate:
    """Memory peak of every stage: states + max(forward and backward, optimizer) + least pool + communicators + runtime.

    The two peaks never add up: activations are freed when the optimizer runs. In the first iteration the moments do not exist
    before the optimizer creates them; framework logs of a first step show this. ``breakdown`` adds the parts that sum to the
    peak.
    """
    profile = workload.cluster.profile
    logits = stages.is_last * logits_bytes(workload, batch, held.activations[0].input_bytes)
    layer_bytes = (held.saved_bytes + held.checkpoints) / np.maximum(parameters.layers, 1.0)
    of_head, waiting = waiting_gradients_bytes(workload, batch, stages.is_last, trained, layer_bytes)
    logits = logits + of_head + stages.is_last * whole_weights_bytes(workload, batch, parameters)
    working_set = held.working_set + gathered_bytes(workload, batch, parameters, trained) + waiting
    in_loss = logits > working_set  # the loss ends before the backward reaches a layer
    activations = held.saved_bytes + held.checkpoints + held.losses + np.maximum(logits, working_set)
    optimizer = optimizer_transient_bytes(workload, batch, trained, states)
    in_backward = activations >= optimizer
    buffers = module_buffers(workload, batch, stages, held.activations[0])
    steady = states.total + buffers
    allocated = steady + np.maximum(activations, optimizer)
    first = np.maximum(steady - states.moments + activations, steady + optimizer)
    communicators = num_communicators(workload, batch) * profile.communicator_bytes
    communicators = communicators + np.where(batch.pp > 1, workload.device_traits.p2p_buffer_bytes, 0)
    outside = communicators + profile.context_bytes
    least_pool, pool = _pools(workload, allocated, outside, constants)
    reserved = allocated + pool
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
            "working_set": np.where(in_backward & ~in_loss, working_set, 0.0),
            "logits": np.where(in_backward, held.losses + np.where(in_loss, logits, 0.0), 0.0),
            "optimizer_transient": np.where(in_backward, 0.0, optimizer),
            "module_buffers": buffers,
            "allocator_pool": least_pool,
            "communicators": np.broadcast_to(communicators, allocated.shape),
            "runtime": np.full(allocated.shape, profile.context_bytes),
        }
    )
    return MemoryEstimate(
        after_step=steady + states.gradient_copies,
        allocated=allocated,
        first_iteration=first,
        reserved=reserved,
        peak=allocated + least_pool + outside,
        pooled=reserved + outside,
        parts=parts,
    )

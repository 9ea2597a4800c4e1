"""Work that happens once a step: gradient reduction, weight gathering, optimizer."""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, Device, element_bytes, element_factor, state_s
from cost_models.memory.model_states import (
    MASTER_BYTES,
    WEIGHT_BYTES,
    StageParameters,
    adam_keeps_master,
    gradient_bytes,
    master_bytes,
    moment_bytes,
    scatters_each_micro_batch,
    table_copies,
)
from cost_models.memory.whole_tensors import WholeTensors
from cost_models.network.collectives import all_gather_s, all_reduce_s, hybrid_scatter_s
from cost_models.network.tiers import Network
from cost_models.pipeline.stages import LayersByKind
from cost_models.shapes.fully_sharded import (
    gathers_a_step,
    has_units,
    keeps_whole_stages,
    reduces_copies_beside,
    shards_each_layer,
)
from cost_models.shapes.layer_keys import Floats, data_parallel_sizes, joined_experts, shard_sizes
from cost_models.shapes.parameters import MTP_NORMS, layer_parameters
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import host_update_s
from cost_models.step.orthogonalising import update_s
from documents.late_methods import dataclass

# HBM traffic a parameter of Adam without its moments: gradient and master are read, master and weight written.
UPDATE_BYTES = 3 * FP32_BYTES + ELEMENT_BYTES
NORM_BYTES = 2 * FP32_BYTES  # a parameter: the gradient buffer is zeroed, then read for norm and clip
FP32_ACCUMULATION_BYTES = ELEMENT_BYTES + 2 * FP32_BYTES  # a gradient is read, its sum read and written


@dataclass(frozen=True)
class GradientExchange:
    """Seconds ``[stage, n]`` of a step: gradient reduction behind backwards, weight gathering before forwards.

    ``sums_s`` follows the reduction, and nothing hides it: see ``shared_table_s`` and ``replicated_sums_s``. ``copies_s`` adds
    the shards of groups that hold the same ones, in stacks that do so once a step: behind the last backward, after its
    reduction. ``apart_copies_s`` does the same over links that the reduction does not use.
    """

    reduce_s: Floats
    gather_s: Floats
    sums_s: Floats
    copies_s: Floats
    apart_copies_s: Floats
    num_reductions: IntColumn  # backwards with a reduction, ``[n]``
    num_gathers: IntColumn  # a step, where no forward hides them, ``[n]``
    num_gathered: IntColumn  # forwards with a gather, ``[n]``


def gradient_exchange(
    workload: Workload,
    batch: StrategyBatch,
    trained: StageParameters,
    edge_only: StageParameters,
    sums_s: Floats,
    network: Network,
    quantised: tuple[Floats, Floats] | None = None,
    num_layers: Floats | None = None,
) -> GradientExchange:
    """Time to reduce gradients and gather weights over the replicas, before compute hides it; experts over their own replicas.

    Each parameter has g bytes of gradient to reduce-scatter and 2 bytes of weight to all-gather, 4 in FP32, and 1 where
    linear layers keep it in 8 bits alone, unless its recipe says otherwise [megatron-0.19, param_and_grad_buffer.py:914].
    Without sharding the gradients are all-reduced. ZeRO-2 scatters after every micro batch, in a pipeline once a step
    (``scatters_each_micro_batch``). Under ZeRO-3 the layers do this themselves
    (``cost_models.layer.communication.weight_comm``), and only the parameters of the ends remain, which every micro batch
    gathers and scatters [rajbhandari2020]; with units (``has_units``) all but the layers of MTP modules once a step. Fully
    sharded PyTorch frees what it has gathered behind each backward, also under
    ZeRO-2 (``reshard_after_forward=False``) [pytorch-fsdp, section 3.3], but in a pipeline stages keep it
    (``keeps_whole_stages``); every forward hides a part of what they gather more than once.

    Parameters
    ----------
    edge_only
        Parameters of embedding, head and MTP alone, trained or not.
    sums_s : ``[stage, n]``
        From ``shared_table_s`` and ``replicated_sums_s``.
    quantised
        From ``quantised_parameters``. ``None``: none.
    num_layers : ``[all or with experts, stage, 1]``
        Layers of a rank: PyTorch's FSDP gathers and scatters each with a call of its own, under ZeRO-2 too, and experts with
        another one, unless ``joined_experts``. ``None``: one call.

    Notes
    -----
    Reduce-scatter g P over D' ranks once a step (ZeRO-3, and ZeRO-2 without a pipeline: m times), all-gather 2 P (ZeRO-3: m
    times); P parameters on the rank, D' = dp cp, for experts tp cp dp / (ep etp). From ZeRO-2 on D' are the ranks that share a
    state, and their shards are all-reduced over the groups of them, with units once a step. Megatron-Core has one optimizer
    for dense parameters and one for experts that are apart (ep > 1). After its update each gathers the parameters of both, unless
    the gather waits for the next forward [megatron-0.12, distrib_optimizer.py]. Ranks that update whole tensors need whole
    gradients, which are all-reduced [megatron-0.19, layer_wise_optimizer.py].
    """
    replicas, expert_replicas = data_parallel_sizes(batch)
    keeps = keeps_whole_stages(workload, batch)
    whole = shards_each_layer(workload, batch)
    units = has_units(workload)
    dense = np.where(whole, edge_only.dense, trained.dense)
    held = np.stack([dense, np.where(whole, edge_only.experts, trained.experts)])
    reduced = held * ~(whole & workload.training.task.is_frozen)  # frozen ends are gathered, and have no gradients
    ranks = np.stack([replicas, expert_replicas])[:, None]  # in the order of ``held``, [dense or experts, stage, n]
    sizes = np.where(batch.zero_stage >= 2, np.stack(shard_sizes(batch))[:, None], ranks)
    strides = np.stack([batch.tp, batch.ep * batch.etp])[:, None]
    g = gradient_bytes(workload, batch)
    each = scatters_each_micro_batch(workload, batch)
    micro_batches = batch.num_microbatches(workload.training.global_batch_size)
    times = np.where(each, micro_batches, 1)
    gathered = np.where(each & (whole | workload.software_traits.fp32_shards), micro_batches, 1)
    gathers = np.where(keeps, gathers_a_step(workload, batch), gathered)
    once = (batch.zero_stage >= 2) & units
    calls = _calls(workload, batch, num_layers)
    copied = np.where(once, 1, ranks // sizes)
    scattered = g * np.stack(joined_experts(workload, batch, *reduced))
    parts = hybrid_scatter_s(scattered / calls, sizes, copied, strides, network, own_stream=reduces_copies_beside(workload))
    scatter = np.maximum(*((calls * part).sum(axis=0) for part in parts))
    copies, apart = _copies_s(
        g * np.stack([trained.dense, trained.experts]), sizes, np.where(once, ranks // sizes, 1), strides, network
    )
    weight = np.where(batch.zero_stage == 0, g, element_factor(workload) * WEIGHT_BYTES)
    gathered_bytes = weight * held - _saved_bytes(workload, batch, quantised)
    stays = np.where(whole & units, weight * edge_only.ends, 0.0)
    kept = np.stack([stays, np.zeros_like(stays)])
    freed = np.stack(joined_experts(workload, batch, *(gathered_bytes - kept)))
    gather = (calls * all_gather_s(freed / calls, sizes, strides, network)).sum(axis=0)
    kept_s = all_gather_s(kept, sizes, strides, network).sum(axis=0)
    unsharded = batch.zero_stage == 0
    summed = gather if not _takes_whole_tensors(workload) else all_gather_s(g * held, ranks, strides, network).sum(axis=0)
    return GradientExchange(
        reduce_s=scatter * times + np.where(unsharded | _takes_whole_tensors(workload), summed, 0.0),
        gather_s=np.where(unsharded, 0.0, gather * gathers + kept_s),
        sums_s=sums_s,
        copies_s=copies,
        apart_copies_s=apart,
        num_reductions=times,
        num_gathers=np.where(_gathers_twice(workload) & (batch.ep > 1) & (batch.zero_stage < 3), 2, 1),
        num_gathered=np.where((gathers > 1) & (gather > 0).any(axis=0), micro_batches, 1),
    )


def _copies_s(
    gradient_bytes: Floats, shards: IntColumn, copies: IntColumn, strides: IntColumn, network: Network
) -> tuple[Floats, Floats]:
    """Seconds to add shards over groups once: over the links of the scatter, and over others (``hybrid_scatter_s``).

    Parameters are ``[dense or experts, stage, n]``, results ``[stage, n]`` each.
    """
    if (copies == 1).all():
        return np.zeros(gradient_bytes.shape[1:]), np.zeros(gradient_bytes.shape[1:])
    whole = all_reduce_s(gradient_bytes / shards, copies, strides * shards, network)
    apart = hybrid_scatter_s(gradient_bytes, shards, copies, strides, network, own_stream=True)[1]
    return (whole - apart).sum(axis=0), apart.sum(axis=0)


def _calls(workload: Workload, batch: StrategyBatch, num_layers: Floats | None) -> Floats:
    """Calls in which a rank gathers, or scatters, what its layers do not themselves, ``[all or experts, stage, n]`` or ``[1]``.

    Megatron's buckets grow with the replicas, so that their number is left out.
    """
    if num_layers is None or not workload.software_traits.fp32_shards:
        return np.ones(1)
    return np.where((batch.zero_stage >= 2) & ~shards_each_layer(workload, batch), np.maximum(num_layers, 1.0), 1.0)


def _saved_bytes(workload: Workload, batch: StrategyBatch, quantised: tuple[Floats, Floats] | None) -> Floats:
    """Bytes by which weights that are gathered as they are kept, in 8 bits, are fewer; ``[dense or experts, stage, n]``, or 0."""
    recipe = workload.training.recipe
    if recipe is None or quantised is None or not (workload.keeps_copies_by_recipe and workload.gathers_eight_bits):
        return np.zeros(1)
    once_a_step = (batch.zero_stage == 1) | (batch.zero_stage == 2)
    return np.where(once_a_step, WEIGHT_BYTES - recipe.gathered_bytes, 0.0) * np.stack(quantised)


def _takes_whole_tensors(workload: Workload) -> bool:
    """Whether ranks update whole tensors, for which gradients are all-reduced."""
    return workload.training.optimizer.rules.orthogonalises


def _gathers_twice(workload: Workload) -> bool:
    """Whether the optimizers of experts and of all other parameters each gather the parameters of both.

    An optimizer of whole tensors holds both, and gathers them once.
    """
    traits = workload.software_traits
    if _takes_whole_tensors(workload):
        return False
    return traits.each_optimizer_gathers and not workload.software.has_since(traits.gathers_once_year)


def shared_table_s(
    workload: Workload, batch: StrategyBatch, is_first: Floats, is_last: Floats, is_mtp: Floats, network: Network
) -> Floats:
    """Seconds a step to add the gradients of an embedding table that two ranks of the pipeline hold, ``[stage, n]``.

    The last rank has a copy under tied embeddings, and the rank of the MTP modules has one. All copies are one all-reduce between
    two ranks, of g V h / t bytes, after the reduction over the replicas [megatron-0.12, finalize_model_grads.py]. Frozen tables
    have no gradients.

    Parameters
    ----------
    is_first, is_last, is_mtp : ``[stage, 1]``
        As in ``stage_parameters``.
    """
    model = workload.model
    tied, copied = table_copies(workload, batch)
    shares = is_first + is_last * tied + is_mtp * copied > 0
    table = model.vocab_size * model.hidden_size / np.where(batch.has(Feature.REPLICATED_EMBEDDING), 1, batch.tp)
    last = np.where(tied, batch.pp * batch.vpp - 1, batch.pp * batch.vpp - 1 - batch.mtp_before_head) % batch.pp
    stride = np.maximum(last, 1) * batch.tp * batch.cp * batch.dp
    time_s = all_reduce_s(gradient_bytes(workload, batch) * table, 2, stride, network)
    return np.where(shares & (tied | copied) & (not workload.training.task.is_frozen), time_s, 0.0)


def replicated_sums_s(
    workload: Workload, batch: StrategyBatch, layers: LayersByKind, is_last: Floats, is_mtp: Floats, network: Network
) -> Floats:
    """Seconds a step to add the gradients of weights that all tensor-parallel ranks hold whole, ``[stage, n]``.

    Under sequence parallelism each rank has those of its tokens: norms, routers, and the down-projections of latents. One
    all-reduce of g bytes each follows the reduction over the replicas [megatron-0.12, finalize_model_grads.py]. Compiled graphs
    are not known to have one; frozen weights have no gradients.

    Parameters
    ----------
    layers : ``[stage, 1]``
        Layers of each kind.
    is_last, is_mtp : ``[stage, 1]``
        As in ``stage_parameters``.
    """
    model = workload.model
    each = {
        kind: layer_parameters(model.of_kind(kind), moe=kind.moe, local=kind.local).replicated for kind in model.layer_kinds()
    }
    held = sum((number * each[kind] for kind, number in zip(model.layer_kinds(), layers, strict=True)), np.zeros_like(layers[0]))
    held = held + is_last * model.hidden_size
    held = held + is_mtp * model.mtp_num_layers * (each[model.kinds_of_layers()[-1]] + MTP_NORMS * model.hidden_size)
    sums = workload.software_traits.eager and not workload.training.task.is_frozen
    summed = np.where((batch.sequence_parallel != 0) & sums, gradient_bytes(workload, batch) * held, 0.0)
    return all_reduce_s(summed, batch.tp, np.ones_like(batch.tp), network)


def exchange_of_step_s(batch: StrategyBatch, exchange: GradientExchange) -> tuple[Floats, Floats]:
    """Seconds of reduction, and of gathering, in a step, hidden or not. ``[stage, n]``"""
    gathers = np.where(batch.has(Feature.OVERLAP_PARAM_GATHER), 1, exchange.num_gathers)
    copies = exchange.copies_s + exchange.apart_copies_s
    return exchange.reduce_s + copies + exchange.sums_s, gathers * exchange.gather_s


def exchange_beyond_compute_s(
    batch: StrategyBatch, exchange: GradientExchange, forward_s: Floats, backward_s: Floats, exposed_fraction: float
) -> tuple[Floats, Floats]:
    """Seconds of each stage's reduction and gather that exceed the passes they overlap, ``[stage, n]`` each.

    With overlap, a fraction ``exposed_fraction`` (``dp_exposed_fraction``) is always exposed, and at least the part that the last
    backward (or the first forward) of one micro batch cannot hide. ZeRO-2 and ZeRO-3 reduce during every backward
    [megatron-0.12, distributed_data_parallel.py]. Copies of shards are added behind the last one, in line with its reduction.

    Parameters
    ----------
    forward_s, backward_s : ``[stage, n]``
        Passes of one micro batch on the rank.
    """

    def left(time: Floats, beyond: Floats, feature: Feature) -> Floats:
        overlapped = np.maximum(exposed_fraction * time, beyond)
        return np.where(batch.has(feature), overlapped, time)

    in_line = exchange.reduce_s + exchange.copies_s
    of_last = exchange.reduce_s / exchange.num_reductions + exchange.copies_s
    beyond = np.maximum(in_line - exchange.num_reductions * backward_s, of_last - backward_s)
    reduce = left(in_line, beyond, Feature.OVERLAP_GRAD_REDUCE)
    apart = left(exchange.apart_copies_s, exchange.apart_copies_s - backward_s, Feature.OVERLAP_GRAD_REDUCE)
    whole = exchange_of_step_s(batch, exchange)[1]
    gather = left(whole, whole - exchange.num_gathered * forward_s, Feature.OVERLAP_PARAM_GATHER)
    return reduce + apart + exchange.sums_s, gather


def exposed_exchange_s(
    whole_s: tuple[Floats, Floats],
    reduce_left_s: Floats,
    gather_left_s: Floats,
    slack_forward_s: Floats,
    slack_backward_s: Floats,
) -> tuple[Floats, Floats]:
    """Exposed and hidden seconds of the exchange on the worst stage, ``[n]`` each.

    A later stage ends its backward earlier and starts its forward later, by the time that the stages before it need. This slack
    hides more of the time that ``exchange_beyond_compute_s`` leaves.

    Parameters
    ----------
    whole_s : ``[stage, n]`` each
        From ``exchange_of_step_s``.
    reduce_left_s, gather_left_s : ``[stage, n]``
        From ``exchange_beyond_compute_s``.
    slack_forward_s : ``[stage, n]``
        Wait of later stages for their first forward.
    slack_backward_s : ``[stage, n]``
        Time by which later stages end earlier.
    """
    exposed = np.maximum(reduce_left_s - slack_backward_s, 0.0).max(axis=0)
    exposed = exposed + np.maximum(gather_left_s - slack_forward_s, 0.0).max(axis=0)
    whole = sum(whole_s, np.zeros(1)).max(axis=0)
    return exposed, np.maximum(whole - exposed, 0.0)


def optimizer_s(
    workload: Workload,
    batch: StrategyBatch,
    parameters: StageParameters,
    device: Device,
    network: Network | None = None,
    whole_tensors: WholeTensors | None = None,
) -> Floats:
    """Seconds a step of the optimizer, ``[stage, n]``: update of the rank's share, gradient norm and clip.

    Under swap-optimizer the host link can be slower than Adam; ``host_update_s`` is Adam on the host. Matrices that are
    orthogonalised take the time of the rank that has most of them (``whole_tensors``); the network is for theirs alone.
    """
    dense_shards, expert_shards = shard_sizes(batch)
    shard = parameters.dense / dense_shards + parameters.experts / expert_shards
    # The gradient norm reads the gradients that the rank keeps: its shard from ZeRO-2 on, or where nothing is added up.
    keeps_shard = (batch.zero_stage >= 2) | scatters_each_micro_batch(workload, batch)
    held = np.where(keeps_shard, shard, parameters.dense + parameters.experts)
    moments = moment_bytes(workload, batch)  # read and written; swapped moments are also copied in and out
    # FP32 weights are their own master, and nothing else is written.
    updated = UPDATE_BYTES - (ELEMENT_BYTES if workload.training.precision == "fp32" else 0)
    if whole_tensors is not None and network is not None:
        bytes_each = updated + float(2.0 * moments[0])
        optimizer, rest_s = workload.training.optimizer, state_s(bytes_each, device)
        whole = whole_tensors.of_rank(lambda each: update_s(each, optimizer, device, network, bytes_each), float(rest_s))
        return whole + state_s(NORM_BYTES * held, device)
    update = state_s((updated + _types_bytes(workload, batch) + 2.0 * moments) * shard + NORM_BYTES * held, device)
    swapped = np.where(batch.has(Feature.SWAP_OPTIMIZER), 2.0 * (MASTER_BYTES + moments) * shard, 0.0)
    swap = swapped / workload.cluster.profile.host_link_bytes_per_s
    on_host = state_s(NORM_BYTES * held, device) + host_update_s(workload, batch, shard)
    result: Floats = np.where(batch.has(Feature.OPTIMIZER_CPU_OFFLOAD), on_host, np.maximum(update, swap))
    return result


def _types_bytes(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes a parameter that types of states add to an update beside moments of their size, ``[n]``; below 0 where fewer move.

    What is left of BF16 weights' master needs the weight, which is read too; gradients are read as they are accumulated, unless
    Megatron holds the master weights [transformer-engine, fused_adam.py].
    """
    types = workload.training.optimizer.state_types
    if types is None:
        return np.zeros(len(batch))
    shorter = 2.0 * (MASTER_BYTES - master_bytes(workload, batch))
    fewer = FP32_BYTES - gradient_bytes(workload, batch) if adam_keeps_master(workload) else 0.0
    with_weight = adam_keeps_master(workload) and types.main_params == "fp32" and workload.training.precision != "fp16"
    return FP32_BYTES * types.copy_passes + (ELEMENT_BYTES if with_weight else 0.0) - shorter - fewer


def accumulation_s(workload: Workload, batch: StrategyBatch, parameters: StageParameters, device: Device) -> Floats:
    """Seconds a micro batch to add gradients to the buffer and to cast FP32 weights, ``[stage, n]``.

    ``accumulation_bytes`` is for an FP32 buffer: a 2-byte gradient read, 4 bytes read and written. Shorter buffers move less,
    gradients in FP32 more.
    """
    c = device.constants
    share = (element_bytes(workload) + 2.0 * gradient_bytes(workload, batch)) / FP32_ACCUMULATION_BYTES
    moved = c.accumulation_bytes * share + (c.cast_bytes if workload.software.fp32_parameters else 0.0)
    dense_shards, expert_shards = shard_sizes(batch)
    scattered = scatters_each_micro_batch(workload, batch)  # only the rank's shard is added to
    held = parameters.dense / np.where(scattered, dense_shards, 1) + parameters.experts / np.where(scattered, expert_shards, 1)
    return state_s(moved * held, device)

"""Communication time of one layer and micro batch by kind, forward and backward, before compute hides any of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.adapters import adapter_comm
from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, element_bytes
from cost_models.layer.expert_communication import RoutedTokens, expert_combine, expert_dispatch
from cost_models.layer.expert_rows import drops_expert_inputs, gathers_shared_input, load_factor, token_holders, uneven_experts
from cost_models.layer.gathered_inputs import kept_gathers
from cost_models.layer.gathered_keys import GatheredKeys, gathered_keys, key_value_elements
from cost_models.layer.linear_attention import linear_attention_exchanged, recurrence_cp
from cost_models.layer.sparse_attention import indexer_gathers, ulysses_elements
from cost_models.layer.unfused_bytes import routes_in_fp32
from cost_models.network.collectives import (
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    hybrid_scatter_s,
    reduce_scatter_s,
    send_recv_s,
)
from cost_models.network.tiers import Network
from cost_models.shapes.adapters import layer_rank_linears, trained_rank_parameters
from cost_models.shapes.fully_sharded import gathers_in_rings, gathers_units_in_eight_bits, reduces_copies_beside
from cost_models.shapes.layer_keys import Floats, LayerKeys, joined_experts
from cost_models.shapes.parameters import layer_rank_parameters
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass

EIGHT_BIT_BYTES = 1
FINE_GRAIN_INTERLEAVE_FRACTION = 0.87  # exposed fraction of TP communication: a half micro batch hides the other's [runs-fit]


def network_of(workload: Workload, constants: Constants) -> Network:
    """The workload's network with the calibrated rates that collectives reach. Groups do not contend for a port."""
    return Network.of(
        workload.cluster,
        intra_fraction=constants.intra_fraction,
        inter_fraction=constants.inter_fraction,
        call_latency_s=constants.collective_latency_s,
        rings=gathers_in_rings(workload),
    )


@dataclass(frozen=True)
class TensorParallelComm:
    """TP communication in seconds, columns ``[k]``.

    ``regather_s`` gathers saved inputs again beside a backward's matmuls; ``kept_s`` is its part for inputs that are kept as
    gathered. ``mlp_forward_s`` is the part of ``forward_s`` around a dense MLP or shared experts, and ``latents_forward_s`` the
    part that gathers latents: recompute of these modules repeats it.
    """

    forward_s: Floats
    backward_s: Floats
    regather_s: Floats
    kept_s: Floats
    mlp_forward_s: Floats
    latents_forward_s: Floats


def tensor_parallel_comm(
    workload: Workload, keys: LayerKeys, network: Network, *, moe: bool, local: bool = False
) -> TensorParallelComm:
    """Tensor-parallel collectives around the attention block and the MLP block of one layer.

    Under sequence parallelism these are all-gathers and reduce-scatters, else all-reduces. Each moves 2 n h bytes over tp. MLA
    under sequence parallelism gathers the latents instead of the hidden state [megatron-0.12, multi_latent_attention.py]. Routed
    experts with etp = 1 need none; shared experts do. If there are fewer heads of keys and values than ranks, each rank computes
    a slice of the projection and gathers the whole of it [megatron-0.19, attention.py]. All times are 0 at tp 1.

    Notes
    -----
    Sequence parallel: forward = enter + scatter + blocks (gather + scatter); the backward is the reverse. ``regather_s``
    gathers the saved inputs again while the gradients of inputs are computed; overlapped shared experts keep theirs gathered.
    It includes inputs that a stack keeps as gathered, because constants were fitted so.
    Without sequence parallelism each block all-reduces once in each pass, with equal bytes, but the gradients of latents at
    their own width. The shared rope key enters no linear layer: it is gathered once, and its gradient is reduced under sequence
    parallelism only. Shared heads: a gather of 2 n d (H + 2 Hk) bytes forward, a reduce-scatter of as many backward.
    An indexer gathers its inputs in a forward, and the queries for its loss once, which counts as backward.
    """
    model, training = workload.model, workload.training
    n = keys.tokens(training)
    stride = np.ones_like(keys.tp)
    each = element_bytes(workload)
    hidden = each * n * model.hidden_size
    entering = expanded = hidden
    is_latent = False
    if model.mla is not None and model.mla.q_lora_rank and model.linear_attention(local=local) is None:
        mla, is_latent = model.mla, True
        expanded = each * n * (mla.q_lora_rank + mla.kv_lora_rank)
        entering = expanded + each * n * mla.qk_rope_head_dim
    gather, scatter = all_gather_s(hidden, keys.tp, stride, network), reduce_scatter_s(hidden, keys.tp, stride, network)
    enter, reduce = all_gather_s(entering, keys.tp, stride, network), all_reduce_s(hidden, keys.tp, stride, network)
    enter_back = reduce_scatter_s(entering, keys.tp, stride, network)
    reduce_back = all_reduce_s(expanded, keys.tp, stride, network)
    again = all_gather_s(expanded, keys.tp, stride, network)
    has_mlp_block = model.has_mlp and not (moe and model.moe is not None and model.moe.shared_expert_ffn_hidden_size == 0)
    blocks, mixer = float(has_mlp_block), float(model.has_mixer)
    sp = keys.sequence_parallel != 0
    mlp = blocks * np.where(sp, gather + scatter, reduce)
    forward = mixer * np.where(sp, enter + scatter, reduce) + mlp
    backward = mixer * np.where(sp, gather + enter_back, reduce_back) + mlp
    grid = keys.has(Feature.TP_2D)
    if grid.any():
        whole = _grid_comm_s(keys, hidden, network)
        mlp = np.where(grid, blocks * whole, mlp)
        forward, backward = (np.where(grid, passes * (mixer + blocks) * whole, s) for passes, s in ((1, forward), (2, backward)))
    shared = _shared_heads_bytes(workload, keys, local=local)
    latents = np.where(sp & ~grid & is_latent, again, 0.0)
    low_rank, low_rank_back = adapter_comm(workload, keys, network, moe=moe)
    # Frozen weights need no input in a backward [megatron-0.12, layers.py].
    regathers = sp & ~grid & (not training.task.is_frozen)
    kept = moe & gathers_shared_input(workload, keys)
    whole_attention, whole_mlp = kept_gathers(workload, keys, moe=moe, local=local)
    if model.sparse_attention is not None:
        inputs, queries = indexer_gathers(workload, keys)
        forward = forward + all_gather_s(each * inputs, keys.tp, stride, network)
        backward = backward + all_gather_s(each * queries, keys.tp, stride, network)
    of_attention, of_mlp = np.where(regathers, mixer * again, 0.0), np.where(regathers & ~kept, blocks * gather, 0.0)
    return TensorParallelComm(
        forward + all_gather_s(shared, keys.tp, stride, network) + low_rank,
        backward + reduce_scatter_s(shared, keys.tp, stride, network) + low_rank_back,
        of_attention + of_mlp,
        whole_attention * of_attention + whole_mlp * of_mlp,
        mlp,
        latents,
    )


# Collectives that the recompute of a module repeats.
_REPEATED: Mapping[RecomputeModule, Callable[[TensorParallelComm], Floats]] = {
    RecomputeModule.MLP: lambda comm: comm.mlp_forward_s,
    RecomputeModule.MOE: lambda comm: comm.mlp_forward_s,
    RecomputeModule.EVERY_OTHER_MATMUL: lambda comm: comm.regather_s,
    RecomputeModule.MLA_UP_PROJ: lambda comm: comm.latents_forward_s,
}
REPEATS_COLLECTIVES = RecomputeModule(sum(_REPEATED))


def repeated_collectives(keys: LayerKeys, comm: TensorParallelComm, *, moe: bool) -> Floats:
    """Tensor-parallel communication that the recompute of selected modules of an eager layer repeats. [s] ``[k]``

    A dense MLP, shared experts inside a MoE block, and up-projections of latents run their forward again with its collectives
    [megatron-0.12, transformer_layer.py]. Where every other matmul is recomputed, the gathers of its inputs run again.
    """
    absent = RecomputeModule.MLP if moe else RecomputeModule.MOE
    repeated = np.zeros(len(keys.tp))
    for module, seconds in _REPEATED.items():
        if module is not absent:
            repeated = repeated + np.where(keys.recomputes(module), seconds(comm), 0.0)
    return repeated


def _shared_heads_bytes(workload: Workload, keys: LayerKeys, *, local: bool) -> Floats:
    """Bytes of the projection to queries, keys and values where tensor-parallel ranks share heads of keys; else 0. ``[k]``

    A compiled graph repeats the heads in the weights instead [mindformers-1.8].
    """
    model = workload.model
    lacks = not model.has_mixer or model.mla is not None or model.linear_attention(local=local) is not None
    if lacks or not workload.software_traits.eager:
        return np.zeros(len(keys.tp))
    queries = model.num_attention_heads * (2 if model.attention_output_gate else 1)
    whole = element_bytes(workload) * keys.tokens(workload.training) * model.kv_channels * (queries + 2 * model.num_query_groups)
    return np.where(keys.tp > model.num_query_groups, whole, 0.0)


def _grid_comm_s(keys: LayerKeys, hidden_bytes: Floats, network: Network) -> Floats:
    """TP-2D: time of one block's collectives over an x by y grid of the tp ranks, forward. [s] ``[k]``

    Both matmuls gather along x and scatter along y [mindspeed, tp-2d]. x is the larger factor of tp next to its square root.
    Tokens are split over x and the hidden size over y. The backward takes twice as long.

    Parameters
    ----------
    hidden_bytes : ``[k]``
        The whole hidden state of a micro batch.
    """
    x = 2.0 ** np.ceil(np.log2(np.maximum(keys.tp, 1)) / 2.0)
    y = keys.tp / x
    gather = all_gather_s(hidden_bytes / y, x, np.ones_like(x), network)
    return 2.0 * (gather + reduce_scatter_s(hidden_bytes / x, y, x, network))


def exposed_tp_fraction(keys: LayerKeys, constants: Constants) -> Floats:
    """Fraction of the TP communication that fused or overlapped kernels leave exposed, in either pass. ``[k]``

    MC2 takes precedence over CoC, and CoC over the framework's overlap.
    """
    fused = constants.fused_tp_exposed_fraction
    fraction = np.ones(len(keys.tp))
    fraction = np.where(keys.has(Feature.TP_COMM_OVERLAP), constants.overlapped_tp_exposed_fraction, fraction)
    fraction = np.where(keys.has(Feature.COC), (1.0 + fused) / 2.0, fraction)  # half of MC2's gain
    fraction = np.where(keys.has(Feature.MC2), fused, fraction)
    return fraction * np.where(keys.has(Feature.FINE_GRAIN_INTERLEAVE), FINE_GRAIN_INTERLEAVE_FRACTION, 1.0)


@dataclass(frozen=True)
class ContextParallelComm:
    """Columns ``[k]``: seconds of the Ulysses all-to-alls of one pass, seconds of one ring hop, and the number of hops.

    ``gathered`` is the exchange of ranks that gather keys and values instead, in which ``num_gradient_hops`` pass gradients on.
    """

    all_to_all_s: Floats
    hop_s: Floats
    num_hops: Floats
    gathered: GatheredKeys
    num_gradient_hops: Floats

    @property
    def forward_s(self) -> Floats:
        """All of a forward, before compute hides it. [s] ``[k]``"""
        return self.all_to_all_s + self.num_hops * self.hop_s + self.gathered.gather_s

    @property
    def backward_s(self) -> Floats:
        """All of a backward, before compute hides it. [s] ``[k]``"""
        gradients = self.gathered.scatter_s + self.num_gradient_hops * self.gathered.gradient_hop_s
        return self.forward_s + self.num_hops * self.hop_s + gradients


def context_parallel_comm(workload: Workload, keys: LayerKeys, network: Network, *, local: bool = False) -> ContextParallelComm:
    """Context-parallel communication of one layer and micro batch, forward: Ulysses inside, ring outside.

    q, k, v and the output are exchanged inside groups of u ranks; K and V go round a ring of c / u ranks, unless the c ranks
    gather them. A ring hop is one send of keys and values. The backward has the same all-to-alls, and hops of twice the bytes
    (K, V and their gradients). MLA moves its expanded keys and values. A recurrence divides its heads and has no ring.
    Source: [mindspeed, hybrid context parallel].
    """
    model = workload.model
    n = keys.tokens(workload.training)
    heads = model.num_attention_heads
    inner, each = np.maximum(keys.ulysses_degree, 1), element_bytes(workload)
    linear, none = model.linear_attention(local=local), np.zeros_like(n)
    apart = none, none, GatheredKeys(none, none, none), none
    if not model.has_mixer:
        return ContextParallelComm(none, *apart)
    if linear is not None:
        ranks = recurrence_cp(linear, keys)
        exchanged = each * n * linear_attention_exchanged(linear, keys.tp * ranks) / keys.tp
        return ContextParallelComm(all_to_all_s(exchanged, ranks, keys.tp, network), *apart)
    if model.sparse_attention is not None:
        parts, whole = ulysses_elements(workload, keys)
        gathered = all_gather_s(each * n * inner * whole, inner, keys.tp, network)
        return ContextParallelComm(all_to_all_s(each * n * parts, inner, keys.tp, network) + gathered, *apart)
    kv = key_value_elements(workload, keys)
    if model.mla is None:
        out = model.kv_channels * heads
        query = out * (2 if model.attention_output_gate else 1)
    else:
        query, out = model.mla.qk_head_dim * heads, model.mla.v_head_dim * heads
    exchanged = each * n * (query + kv + out) / keys.tp
    ring = np.where(keys.gathers_keys, 1, keys.cp // inner)
    hop = send_recv_s(each * n * kv / keys.tp, ring, keys.tp * inner, network)
    return ContextParallelComm(
        all_to_all_s(exchanged, inner, keys.tp, network),
        hop,
        np.asarray(ring - 1.0, dtype=np.float64),
        gathered_keys(workload, keys, network),
        np.where(keys.gathers_keys, keys.cp, 0.0),
    )


@dataclass(frozen=True)
class ExpertComm:
    """Seconds of dispatch and combine in one forward, columns ``[k]``."""

    dispatch_s: Floats
    combine_s: Floats


def expert_comm(workload: Workload, keys: LayerKeys, network: Network, constants: Constants) -> ExpertComm:
    """Time of the key's dispatcher for one MoE layer and micro batch, before compute hides any of it.

    It is calibrated by ``expert_comm_factor``. Capacity padding balances the receiving side. Ranks of an etp group that hold the
    same tokens each count for their share; the gather and scatter over etp then equal the all-reduce that runs instead.

    Notes
    -----
    Imbalance enters here: ``load_factor`` is the busiest rank's share over the mean. Every exchange except an all-gather waits
    for that rank.
    """
    shape, training = workload.model.moe, workload.training
    assert shape is not None
    tokens = keys.sharded_tokens(training) * (shape.capacity_factor or 1.0) / token_holders(keys)
    routed = RoutedTokens(
        keys.dispatcher,
        tokens,
        element_bytes(workload) * workload.model.hidden_size,
        keys.ep,
        keys.etp,
        shape,
        network,
        load_factor(keys, shape, training),
        uneven_experts(shape, training),
        keys.has(Feature.MOE_TIER_STREAMS),
        np.where(routes_in_fp32(workload, keys), FP32_BYTES / element_bytes(workload), 1.0),
    )
    factor = constants.expert_comm_factor
    return ExpertComm(expert_dispatch(routed).time_s * factor, expert_combine(routed).time_s * factor)


def repeated_dispatch_s(keys: LayerKeys, exchange: ExpertComm) -> Floats:
    """Dispatch that a backward repeats to have the experts' inputs again. [s] ``[k]``

    Merged passes do so under ``moe_zero_memory``. It carries neither counts nor weights, so that it is as long as a combine
    [mindspeed-fb-overlap, fwdbwd.py; bwd.py].
    """
    return np.where(drops_expert_inputs(keys), exchange.combine_s, 0.0)


def reduced_gradient_bytes(workload: Workload, rows: StrategyBatch | LayerKeys) -> Floats:
    """Bytes of one gradient as it is reduced, ``[n]`` or ``[k]`` like ``rows``: 4, but 2 in FP16 training or BF16 reduction.

    Weights in FP32 have gradients in FP32, whatever they are cast to.
    """
    halves = workload.training.precision == "fp16" and not workload.keeps_fp32_weights
    return np.where(rows.has(Feature.GRAD_REDUCE_IN_BF16) | halves, float(ELEMENT_BYTES), float(FP32_BYTES))


def weight_comm(
    workload: Workload, keys: LayerKeys, network: Network, *, moe: bool, local: bool = False
) -> tuple[Floats, Floats]:
    """ZeRO-3: time to gather one layer's weights, and time to reduce-scatter its gradients. [s] ``[k]``

    The forward and the backward each need one gather; the backward needs one reduce-scatter. Both times are 0 without sharding.
    Linear weights that Megatron-FSDP keeps in 8 bits are gathered so (``gathers_units_in_eight_bits``).
    If several groups of ranks hold the same shards, each shard of gradients is then all-reduced over the groups
    [pytorch-fsdp, section 3.2.2]. Where that runs beside the backward's gather and scatter (``hybrid_scatter_s``), only the time
    by which it exceeds both is added. Experts have calls of their own, unless ``joined_experts``.
    """
    task = workload.training.task
    whole = layer_rank_parameters(workload.model, keys, moe=moe, local=local)
    trained = trained_rank_parameters(workload, keys, whole, moe=moe)
    gradient = reduced_gradient_bytes(workload, keys)
    gathered = [element_bytes(workload) * p for p in whole]
    linears = layer_rank_linears(workload.model, keys, moe=moe, local=local)
    if gathers_units_in_eight_bits(workload):
        gathered = [size - (ELEMENT_BYTES - EIGHT_BIT_BYTES) * linear for size, linear in zip(gathered, linears, strict=True)]
    if task.is_frozen:  # frozen weights travel as they are stored
        gathered = [
            ELEMENT_BYTES * (p + low_rank) + (task.stored_bytes - ELEMENT_BYTES) * linear
            for p, linear, low_rank in zip(whole, linears, trained, strict=True)
        ]
    dense = (keys.weight_shards, keys.weight_copies, keys.tp)
    experts = (keys.expert_weight_shards, keys.expert_weight_copies, keys.ep * keys.etp)
    own_stream = reduces_copies_beside(workload)
    gather = scatter = beside = np.zeros(len(keys.tp))
    calls = (joined_experts(workload, keys, *each) for each in (gathered, trained))
    for weights, gradients, (shards, copies, stride) in zip(*calls, (dense, experts), strict=True):
        gather = gather + all_gather_s(weights, shards, stride, network)
        in_line, apart = hybrid_scatter_s(gradient * gradients, shards, copies, stride, network, own_stream=own_stream)
        scatter, beside = scatter + in_line, beside + apart
    return gather, np.maximum(scatter, beside - gather)

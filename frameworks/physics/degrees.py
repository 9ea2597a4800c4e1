"""Rules on degrees: the number of devices, and the divisibility of tensors and the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.strategy import CpAlgo, Dispatcher, IntColumn, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence
from frameworks.rule import Mask, Rule, nearest_divisors, none_of


def _world_size_sentence(workload: Workload, s: ParallelStrategy) -> str:
    world, model_ranks = workload.cluster.num_devices, s.tp * s.cp * s.pp
    product = Sentence(
        "tp {} x cp {} x pp {} x dp {} = {} devices, but the cluster has {}", s.tp, s.cp, s.pp, s.dp, model_ranks * s.dp, world
    )
    if world % model_ranks == 0:
        return Sentence("{}; dp {} fills it", product, world // model_ranks)
    return Sentence("{}, which tp x cp x pp = {} does not divide", product, model_ranks)


WORLD_SIZE = Rule(
    "world_size",
    "[megatron-0.12, arguments.py]",
    Sentence("tp x cp x pp x dp is the number of devices"),
    lambda w, b: b.tp * b.cp * b.pp * b.dp != w.cluster.num_devices,
    _world_size_sentence,
    layout_only=True,
)


def _nearest_batches(batch: int, divisor: int) -> Sentence:
    """The batches below and above ``batch`` that ``divisor`` divides."""
    below = batch // divisor * divisor
    if not below:
        return Sentence("a batch of {}", divisor)
    return Sentence("a batch of {} or {}", below, below + divisor)


GLOBAL_BATCH = Rule(
    "global_batch",
    "[megatron-0.12, num_microbatches_calculator.py]",
    Sentence("micro_batch_size x dp divides the global batch"),
    lambda w, b: w.training.global_batch_size % (b.micro_batch_size * b.dp) != 0,
    lambda w, s: Sentence(
        "micro_batch_size {} x dp {} = {} does not divide global_batch_size {}; {}, or {}",
        s.micro_batch_size,
        s.dp,
        s.micro_batch_size * s.dp,
        w.training.global_batch_size,
        nearest_divisors(w.training.global_batch_size, s.micro_batch_size * s.dp),
        _nearest_batches(w.training.global_batch_size, s.micro_batch_size * s.dp),
    ),
    layout_only=True,
)

EXPERTS_NEED_MOE = Rule(
    "experts_need_moe",
    "[megatron-0.12, transformer_config.py]",
    Sentence("a model without experts has ep and etp 1"),
    lambda w, b: (b.ep * b.etp > 1) if w.model.moe is None else none_of(b),
    lambda w, s: Sentence("{} has no experts, so ep {} and etp {} must be 1", w.model.name, s.ep, s.etp),
    layout_only=True,
)

EXPERT_WORLD = Rule(
    "expert_world",
    "[megatron-0.12, parallel_state.py]",
    Sentence("etp x ep divides tp x cp x dp, the devices of one pipeline stage"),
    lambda w, b: (b.tp * b.cp * b.dp) % (b.etp * b.ep) != 0,
    lambda w, s: Sentence(
        "etp {} x ep {} = {} does not divide tp {} x cp {} x dp {} = {}, the devices of one pipeline stage",
        s.etp,
        s.ep,
        s.etp * s.ep,
        s.tp,
        s.cp,
        s.dp,
        s.tp * s.cp * s.dp,
    ),
    layout_only=True,
)


def _divides(name: str, source: str, requirement: str, degree: str, widths: Callable[[ModelShape], Mapping[str, int]]) -> Rule:
    """Rule that a degree divides widths of the model, by their names in sentences. A width of 0 is absent from the model."""

    def sentence(workload: Workload, s: ParallelStrategy) -> str:
        split = getattr(s, degree)
        what, width = next((what, width) for what, width in widths(workload.model).items() if width % split)
        return Sentence("{} {} does not divide {}; {}", degree, split, what, nearest_divisors(width, split))

    def violates(workload: Workload, batch: StrategyBatch) -> Mask:
        broken = (width % getattr(batch, degree) != 0 for width in widths(workload.model).values() if width)
        return reduce(or_, broken, none_of(batch))

    return Rule(name, source, requirement, violates, sentence, layout_only=True)


def _experts(model: ModelShape) -> int:
    return model.moe.num_experts if model.moe else 0


def _expert_width(model: ModelShape) -> int:
    return model.moe.expert_ffn_hidden_size if model.moe else 0


EXPERTS_PER_RANK = _divides(
    "experts_per_rank",
    "[megatron-0.12, arguments.py]",
    Sentence("ep divides the number of experts"),
    "ep",
    lambda model: {Sentence("the {} experts", _experts(model)): _experts(model)},
)

EXPERT_WIDTH = _divides(
    "expert_width",
    "[megatron-0.12, experts.py]",
    Sentence("etp divides the width of an expert"),
    "etp",
    lambda model: {f"expert_ffn_hidden_size {_expert_width(model)}": _expert_width(model)},
)


def _split_heads(model: ModelShape) -> Mapping[str, int]:
    heads = {f"num_attention_heads {model.num_attention_heads}": model.num_attention_heads}
    linear = model.linear_attention(local=True)
    if linear is None:
        return heads
    return {
        **heads,
        f"local_attention.num_key_heads {linear.num_key_heads}": linear.num_key_heads,
        f"local_attention.num_value_heads {linear.num_value_heads}": linear.num_value_heads,
    }


HEADS_PER_TP = _divides(
    "heads_per_tp",
    "[megatron-0.12, transformer_config.py]",
    Sentence("tp divides the attention heads, and those of linear attention"),
    "tp",
    _split_heads,
)


def _mlp_widths(model: ModelShape) -> Mapping[str, int]:
    dense = model.ffn_hidden_size if model.has_dense_mlp else 0
    shared = model.moe.shared_expert_ffn_hidden_size if model.moe else 0
    return {f"ffn_hidden_size {dense}": dense, f"shared_expert_ffn_hidden_size {shared}": shared}


MLP_WIDTH = _divides(
    "mlp_width",
    "[megatron-0.12, layers.py]",
    Sentence("tp divides the width of the dense MLP and of the shared experts"),
    "tp",
    _mlp_widths,
)

QUERY_GROUPS = Rule(
    "query_groups",
    "[megatron-main, transformer_config.py]",
    Sentence("tp divides the query groups, or is a multiple of them (then they are repeated)"),
    lambda w, b: _misfit(w, b.tp),
    lambda w, s: Sentence("tp {} is neither a divisor nor a multiple of num_query_groups {}", s.tp, w.model.num_query_groups),
    layout_only=True,
)


def _misfit(workload: Workload, split: IntColumn) -> Mask:
    if workload.model.mla is not None:
        return np.zeros(len(split), dtype=np.bool_)
    groups = workload.model.num_query_groups
    return np.asarray((groups % split != 0) & (split % groups != 0), dtype=np.bool_)


SEQUENCE_PARALLEL_NEEDS_TP = Rule(
    "sequence_parallel_needs_tp",
    "[korthikanti2022, section 4.2.2; megatron-0.12, arguments.py]",
    Sentence("sequence parallelism shards over tp, so tp is above 1"),
    lambda w, b: (b.sequence_parallel != 0) & (b.tp == 1),
    lambda w, s: Sentence("sequence_parallel shards over the tp group, and tp is {}", s.tp),
)


def _cp_algo(workload: Workload, batch: StrategyBatch) -> Mask:
    degree, algo = batch.ulysses_degree, batch.cp_algo
    split: Mask = batch.cp > 1
    inside = (degree > 1) & (degree < batch.cp) & (batch.cp % degree == 0)
    fits = (
        (((algo == CpAlgo.RING) | (algo == CpAlgo.KV_ALLGATHER)) & (degree == 1))
        | ((algo == CpAlgo.ULYSSES) & (degree == batch.cp))
        | ((algo == CpAlgo.HYBRID) & inside)
    )
    mask: Mask = np.where(split, ~fits, degree != 1)
    return mask


def _cp_algo_sentence(workload: Workload, s: ParallelStrategy) -> str:
    given = Sentence("cp {} with cp_algo {} and ulysses_degree {}", s.cp, s.cp_algo.label, s.ulysses_degree)
    if s.cp == 1:
        return Sentence("{}: without context parallelism ulysses_degree is 1", given)
    return Sentence(
        "{}: ring and kv_allgather need ulysses_degree 1, ulysses {}, hybrid a divisor of {} between them", given, s.cp, s.cp
    )


CP_ALGO = Rule(
    "cp_algo",
    "[mindspeed, context_parallel_feature.py]",
    Sentence(
        "cp above 1 has an algorithm whose ulysses_degree is 1 (ring, kv_allgather), cp (ulysses) or a proper divisor of cp "
        "(hybrid)"
    ),
    _cp_algo,
    _cp_algo_sentence,
)


def _undivided(workload: Workload, tp: Any, cp: Any, ulysses_degree: Any) -> Iterator[tuple[Any, Any, str, Any]]:
    """Where the ranks that exchange heads do not divide them: the mask, the ranks of cp, their name, and the heads.

    Recurrences divide theirs over all of cp: a gated delta net here, a state space in ``STATE_SPACE_HEADS``.
    """
    linear = workload.model.linear_attention(local=True)
    for place, (what, heads) in enumerate(_split_heads(workload.model).items()):
        if place and linear is not None and linear.is_state_space:
            return
        of_all = bool(place) and linear is not None and linear.is_delta_rule
        ranks = cp if of_all else ulysses_degree
        yield heads % (tp * ranks) != 0, ranks, "cp" if of_all else "ulysses_degree", what


def _ulysses_heads_sentence(workload: Workload, s: ParallelStrategy) -> str:
    broken = _undivided(workload, s.tp, s.cp, s.ulysses_degree)
    ranks, name, what = next((ranks, name, what) for is_broken, ranks, name, what in broken if is_broken)
    return Sentence("tp {} x {} {} = {} does not divide {}", s.tp, name, ranks, s.tp * ranks, what)


ULYSSES_HEADS = Rule(
    "ulysses_heads",
    "[mindspeed, ulysses_context_parallel.py; megatron-0.19, gated_delta_net/common.py]",
    Sentence("tp x ulysses_degree divides the attention heads, and those of linear attention; tp x cp those of gated delta nets"),
    lambda w, b: reduce(or_, (mask for mask, *_ in _undivided(w, b.tp, b.cp, b.ulysses_degree))),
    _ulysses_heads_sentence,
)


def _splits_state_space(workload: Workload, batch: StrategyBatch) -> Mask:
    linear = workload.model.linear_attention(local=True)
    if linear is None or not linear.is_state_space:
        return none_of(batch)
    split, groups = batch.tp * batch.cp, linear.num_key_heads
    mask: Mask = (linear.num_value_heads % split != 0) | ((groups % split != 0) & (split % groups != 0))
    return mask


def _state_space_sentence(workload: Workload, s: ParallelStrategy) -> str:
    linear, split = workload.model.local_attention, s.tp * s.cp
    assert linear is not None
    heads, groups = linear.num_value_heads, linear.num_key_heads
    if heads % split:
        return Sentence("tp {} x cp {} = {} does not divide the {} heads of the state space", s.tp, s.cp, split, heads)
    return Sentence(
        "tp {} x cp {} = {} is neither a divisor nor a multiple of the {} groups of the state space", s.tp, s.cp, split, groups
    )


STATE_SPACE_HEADS = Rule(
    "state_space_heads",
    "[megatron-0.19, mamba_context_parallel.py]",
    Sentence(
        "tp x cp divides the heads of a state space, whatever the cp_algo, and divides its groups or is a multiple of them "
        "(then they are repeated)"
    ),
    _splits_state_space,
    _state_space_sentence,
)


def refuses_ring(workload: Workload) -> bool:
    """Whether attention does not see the keys and values of the whole sequence, which a ring passes on."""
    local = workload.model.local_attention
    # Beside these recurrences attention is full, and they exchange their heads over all of cp in any case.
    whole = (
        local is None
        or local.is_state_space
        or local.is_delta_rule
        or (not local.is_linear and local.window >= workload.training.seq_length)
    )
    return not whole or workload.model.sparse_attention is not None


def _ring_is_local(workload: Workload, batch: StrategyBatch) -> Mask:
    if not refuses_ring(workload):
        return none_of(batch)
    mask: Mask = batch.cp > batch.ulysses_degree
    return mask


LOCAL_ATTENTION_RING = Rule(
    "local_attention_ring",
    "[transformer-engine, context_parallel.py; mindspeed-llm, context_parallel_feature.py]",
    Sentence(
        "ring, hybrid and kv_allgather move the keys and values of the whole sequence: a window below it, Lightning attention "
        "or sparse attention needs ulysses"
    ),
    _ring_is_local,
    lambda w, s: Sentence(
        "cp {} with cp_algo {} moves keys and values of the whole sequence, which {} with {} does not read; take ulysses",
        s.cp,
        s.cp_algo.label,
        w.model.name,
        Sentence("local_attention.kind {}", w.model.local_attention.kind) if w.model.local_attention else "sparse_attention",
    ),
)


ULYSSES_QUERY_GROUPS = Rule(
    "ulysses_query_groups",
    "[mindspeed, ulysses_context_parallel.py]",
    Sentence("tp x ulysses_degree divides the query groups, or is a multiple of them"),
    lambda w, b: _misfit(w, b.tp * b.ulysses_degree),
    lambda w, s: Sentence(
        "tp {} x ulysses_degree {} = {} is neither a divisor nor a multiple of num_query_groups {}",
        s.tp,
        s.ulysses_degree,
        s.tp * s.ulysses_degree,
        w.model.num_query_groups,
    ),
)


SEQUENCE_PER_CP = Rule(
    "sequence_per_cp",
    "[mindspeed, context_parallel_feature.py]",
    Sentence(
        "2 cp divides the sequence where each rank holds an early and a late piece (ring, hybrid, kv_allgather), cp under ulysses"
    ),
    lambda w, b: w.training.seq_length % (b.cp * np.where(b.cp > b.ulysses_degree, 2, 1)) != 0,
    lambda w, s: Sentence(
        "seq_length {} is not a multiple of {} (cp_algo {})",
        w.training.seq_length,
        f"2 x cp = {2 * s.cp}" if s.cp > s.ulysses_degree else f"cp = {s.cp}",
        s.cp_algo.label,
    ),
)

SEQUENCE_PER_TP = Rule(
    "sequence_per_tp",
    "[korthikanti2022, section 4.2.2; megatron-0.12, mappings.py]",
    Sentence("under sequence parallelism tp x cp divides the sequence"),
    lambda w, b: (b.sequence_parallel != 0) & (w.training.seq_length % (b.tp * b.cp) != 0),
    lambda w, s: Sentence(
        "sequence_parallel over tp {} x cp {} = {} does not divide seq_length {}", s.tp, s.cp, s.tp * s.cp, w.training.seq_length
    ),
)


DISPATCHER_NEEDED = Rule(
    "dispatcher_needed",
    "[megatron-0.12, token_dispatcher.py]",
    Sentence("experts on more than one rank have a dispatcher"),
    lambda w, b: none_of(b) if w.model.moe is None else (b.ep * b.etp > 1) & (b.dispatcher == Dispatcher.NONE),
    lambda w, s: Sentence(
        "experts spread over ep {} x etp {} ranks need a moe_dispatcher, and it is {}", s.ep, s.etp, s.dispatcher.label
    ),
)


def _part_of_a_node(workload: Workload, batch: StrategyBatch) -> Mask:
    ranks, domain = batch.ep * batch.etp, expert_domain_devices(workload.cluster)
    mask: Mask = (batch.dispatcher == Dispatcher.HIERARCHICAL) & (ranks > 1) & ((ranks <= domain) | (ranks % domain != 0))
    return mask


HIERARCHICAL_SPAN = Rule(
    "hierarchical_span",
    "[mindspeed-0.8, hierarchical-alltoallv.md]",
    Sentence("hierarchical dispatch spans whole nodes or supernodes: ep x etp is a multiple of their devices, and above it"),
    _part_of_a_node,
    lambda w, s: Sentence(
        "moe_dispatcher {} works between whole nodes, but ep {} x etp {} = {} ranks do not fill 2 or more of {} devices each",
        s.dispatcher.label,
        s.ep,
        s.etp,
        s.ep * s.etp,
        expert_domain_devices(w.cluster),
    ),
)

HIERARCHICAL_GROUPS = Rule(
    "hierarchical_groups",
    "[mindspeed-0.8, hierarchical-alltoallv.md]",
    Sentence("hierarchical dispatch has whole experts (etp 1) and its inner all-to-all in a tp group that stays in a node"),
    lambda w, b: (
        (b.dispatcher == Dispatcher.HIERARCHICAL)
        & (b.ep * b.etp > 1)
        & ((b.etp != 1) | (b.tp == 1) | (b.tp > expert_domain_devices(w.cluster)))
    ),
    lambda w, s: Sentence(
        "moe_dispatcher hierarchical needs etp 1 and tp from 2 to {}, the devices of a node; etp is {} and tp is {}",
        expert_domain_devices(w.cluster),
        s.etp,
        s.tp,
    ),
)

LAYOUT_RULES = (
    WORLD_SIZE,
    GLOBAL_BATCH,
    HEADS_PER_TP,
    QUERY_GROUPS,
    MLP_WIDTH,
    EXPERTS_NEED_MOE,
    EXPERT_WORLD,
    EXPERTS_PER_RANK,
    EXPERT_WIDTH,
)
OPTION_RULES = (
    SEQUENCE_PARALLEL_NEEDS_TP,
    CP_ALGO,
    ULYSSES_HEADS,
    STATE_SPACE_HEADS,
    ULYSSES_QUERY_GROUPS,
    LOCAL_ATTENTION_RING,
    SEQUENCE_PER_CP,
    SEQUENCE_PER_TP,
    DISPATCHER_NEEDED,
    HIERARCHICAL_SPAN,
    HIERARCHICAL_GROUPS,
)

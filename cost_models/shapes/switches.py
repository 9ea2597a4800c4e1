"""The switches that frameworks offer beside the degrees: one entry each, from which all that is known of them is derived.

An entry says what the switch acts on, who prices it, its default and what excludes it. Masks of layer keys, sharding and
pipelines, the canonical form, legality, drafts of launch files, ``docs/switches.md`` and the API's descriptions follow from it.
Adding one is an entry and its formula (CONTRIBUTING.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntFlag, unique
from functools import lru_cache


class Scope(IntFlag):
    """What a model, a layout and its options have for switches to act on; ``acting.py`` says when each of them is there."""

    TENSOR_PARALLEL = 1 << 0  # tp above 1
    CONTEXT_PARALLEL = 1 << 1  # cp above 1
    REPLICAS = 1 << 2  # some parameters, dense or expert, sit on several ranks
    SHARDED_OPTIMIZER = 1 << 3  # zero_stage above 0
    INTERLEAVED = 1 << 4  # the interleaved schedule
    DUALPIPEV = 1 << 5  # the schedule dualpipev
    ROUTED = 1 << 6  # tokens travel to their experts: ep x etp above 1
    GATHERED = 1 << 7  # the dispatcher is allgather
    EXCHANGED = 1 << 8  # it is another one
    EXPERTS = 1 << 9  # the model has MoE layers
    CAPACITY = 1 << 10  # its experts have a capacity factor
    GATED_MLP = 1 << 11  # its MLPs are gated linear units
    ROTARY = 1 << 12  # its positions are not learned


ANY_DISPATCHER = Scope.GATHERED | Scope.EXCHANGED


class Place(IntFlag):
    """Where prices follow from a switch. Rows that differ elsewhere share a price there, so that asking there is an error."""

    LAYER = 1  # once per layer key (``layer_keys``)
    SHARDING = 2  # once per sharding of the parameters (``priced_groups``)
    PIPELINE = 4  # once per pipeline, which all rows of a group share (``priced_groups``)
    ROW = 8  # for each row


class Exclusive(Enum):
    """What several switches replace, each in its own way: one of them."""

    TENSOR_PARALLEL_MATMULS = "the matmuls and collectives of tensor parallelism"
    MASTER_WEIGHTS = "the place of the master weights"


@dataclass(frozen=True)
class Switch:
    """One entry. ``acts_on``: all of it must be there, or the switch does nothing. ``priced``: 0 where only launch files know it.

    ``by_default``: what a strategy has unless told; ``searched``: a search tries it both ways unless told.
    """

    bit: int
    meaning: str
    source: str
    acts_on: Scope
    priced: Place
    by_default: bool
    searched: bool
    one_of: Exclusive | None


class PlaceError(LookupError):
    """A formula asked for a switch that its entry does not price there."""


_ENTRIES: list[Switch] = []
_ANYTHING, _NOWHERE = Scope(0), Place(0)
_TP = Scope.TENSOR_PARALLEL
_EXPERTS = Scope.EXPERTS
_ROUTED = Scope.EXPERTS | Scope.ROUTED


def _switch(
    bit: int,
    meaning: str,
    source: str,
    *,
    acts_on: Scope,
    priced: Place,
    by_default: bool = False,
    searched: bool = False,
    one_of: Exclusive | None = None,
) -> int:
    _ENTRIES.append(Switch(1 << bit, meaning, source, acts_on, priced, by_default, searched, one_of))
    return 1 << bit


@unique
class Feature(IntFlag):
    """The switches by name, as in jobs and run records."""

    FLASH_ATTENTION = _switch(
        0,
        "Attention runs in one fused kernel that keeps no scores for the backward.",
        "[megatron-0.12, arguments.py]",
        acts_on=_ANYTHING,
        priced=Place.LAYER | Place.ROW,
        by_default=True,
    )
    FUSED_NORM = _switch(
        1,
        "Norms run in one kernel, which reads and writes less memory.",
        "[mindspeed, features_manager]",
        acts_on=_ANYTHING,
        priced=Place.LAYER,
        by_default=True,
    )
    FUSED_SWIGLU = _switch(
        2,
        "The activation of a gated MLP runs in one kernel.",
        "[mindspeed, features_manager]",
        acts_on=Scope.GATED_MLP,
        priced=Place.LAYER,
        by_default=True,
    )
    FUSED_ROPE = _switch(
        3,
        "Rotary positions are applied in one kernel.",
        "[mindspeed, features_manager]",
        acts_on=Scope.ROTARY,
        priced=Place.LAYER,
        by_default=True,
    )
    REPLICATED_EMBEDDING = _switch(
        4,
        "Every tensor-parallel rank holds the whole embedding table, which saves the collective behind it.",
        "[mindformers-1.8, config_args.py]",
        acts_on=_TP,
        priced=Place.LAYER | Place.SHARDING,
    )
    MC2 = _switch(
        5,
        "Matmuls and tensor-parallel collectives run as one fused operator of the Ascend library.",
        "[mindspeed, mc2.py]",
        acts_on=_TP,
        priced=Place.LAYER,
        one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
    )
    COC = _switch(
        6,
        "Matmuls are cut in parts, whose tensor-parallel collectives run beside the next part.",
        "[mindspeed, locl_coc.py]",
        acts_on=_TP,
        priced=Place.LAYER,
        one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
    )
    TP_COMM_OVERLAP = _switch(
        7,
        "Transformer Engine runs tensor-parallel collectives beside the matmuls that feed or need them.",
        "[megatron-0.12, arguments.py]",
        acts_on=_TP,
        priced=Place.LAYER,
        one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
    )
    OVERLAP_GRAD_REDUCE = _switch(
        8,
        "Gradients are reduced over the replicas beside the last backward.",
        "[megatron-0.12, distributed_data_parallel.py]",
        acts_on=Scope.REPLICAS,
        priced=Place.ROW,
        by_default=True,
    )
    OVERLAP_PARAM_GATHER = _switch(
        9,
        "Updated weights are gathered beside the first forward of the next step.",
        "[megatron-0.12, distributed_data_parallel.py]",
        acts_on=Scope.REPLICAS | Scope.SHARDED_OPTIMIZER,
        priced=Place.ROW,
        by_default=True,
    )
    OVERLAP_P2P = _switch(
        10,
        "Sends between the chunks of the interleaved schedule run beside other chunks.",
        "[megatron-0.12, schedules.py]",
        acts_on=Scope.INTERLEAVED,
        priced=Place.ROW,
        by_default=True,
    )
    REUSE_FP32_PARAM = _switch(
        11,
        "Master weights are kept as the 16-bit weights and a 16-bit rest.",
        "[mindspeed, reuse_fp32_param.py]",
        acts_on=_ANYTHING,
        priced=Place.SHARDING,
        one_of=Exclusive.MASTER_WEIGHTS,
    )
    SWAP_OPTIMIZER = _switch(
        12,
        "Optimizer states live on the host and visit the device during the step.",
        "[mindspeed, swap-optimizer]",
        acts_on=_ANYTHING,
        priced=Place.SHARDING,
        searched=True,
        one_of=Exclusive.MASTER_WEIGHTS,
    )
    SWAP_ATTENTION = _switch(
        13,
        "What attention keeps for the backward waits on the host.",
        "[mindspeed, swap_attention.md]",
        acts_on=_ANYTHING,
        priced=Place.LAYER,
    )
    GRAD_REDUCE_IN_BF16 = _switch(
        14,
        "Gradients are accumulated and reduced in 16 bits.",
        "[megatron-0.12, arguments.py]",
        acts_on=_ANYTHING,
        priced=Place.LAYER | Place.SHARDING | Place.ROW,
    )
    MOE_GROUPED_GEMM = _switch(
        15,
        "The experts of a rank run in one grouped matmul instead of one after the other.",
        "[megatron-0.12, arguments.py]",
        acts_on=_EXPERTS,
        priced=Place.LAYER | Place.SHARDING,
        by_default=True,
    )
    MOE_PERMUTE_FUSION = _switch(
        16,
        "Tokens are sorted by expert, and back, in one kernel.",
        "[megatron-0.12, arguments.py]",
        acts_on=_EXPERTS,
        priced=Place.LAYER,
        by_default=True,
    )
    MOE_PERMUTATION_ASYNC_COMM = _switch(
        17,
        "Tokens are exchanged asynchronously while others are sorted.",
        "[mindspeed, features_manager/moe]",
        acts_on=_ROUTED,
        priced=_NOWHERE,
    )
    MOE_ALLGATHER_OVERLAP_COMM = _switch(
        18,
        "With the allgather dispatcher, expert communication runs beside the experts' matmuls.",
        "[mindspeed-moe-overlap]",
        acts_on=_ROUTED | Scope.GATHERED,
        priced=Place.LAYER,
    )
    MOE_ALLTOALL_OVERLAP_COMM = _switch(
        19,
        "With an all-to-all dispatcher, expert communication runs beside the experts' matmuls.",
        "[mindspeed-moe-overlap]",
        acts_on=_ROUTED | Scope.EXCHANGED,
        priced=Place.LAYER,
    )
    MOE_COMM_OVERLAP = _switch(
        20,
        "The forward of one micro batch is merged with the backward of another, each behind the other's expert communication.",
        "[mindspeed-fb-overlap]",
        acts_on=_ROUTED,
        priced=Place.LAYER | Place.PIPELINE,
    )
    MOE_SHARED_EXPERT_OVERLAP = _switch(
        21,
        "Shared experts run beside the exchange of the routed ones.",
        "[megatron-0.12, transformer_config.py]",
        acts_on=_ROUTED,
        priced=Place.LAYER,
    )
    MOE_TP_EXTEND_EP = _switch(
        22,
        "Tensor-parallel ranks hold whole experts instead of slices of them.",
        "[mindspeed, tp_extend_ep.py]",
        acts_on=_ROUTED,
        priced=_NOWHERE,
    )
    MOE_PAD_TO_CAPACITY = _switch(
        23,
        "Every expert's rows are filled up to its capacity, so that shapes never change.",
        "[megatron-0.12, transformer_config.py]",
        acts_on=_EXPERTS | Scope.CAPACITY,
        priced=Place.LAYER,
    )
    MOE_ZERO_MEMORY = _switch(
        24,
        "Most of what experts keep for the backward is dropped and computed again.",
        "[mindspeed, moe-zero-memory.md]",
        acts_on=_EXPERTS,
        priced=Place.LAYER,
    )
    CP_SEND_RECV_OVERLAP = _switch(
        25,
        "Context parallelism sends and receives its blocks at the same time.",
        "[mindspeed, features_manager]",
        acts_on=Scope.CONTEXT_PARALLEL,
        priced=_NOWHERE,
    )
    TP_2D = _switch(
        26,
        "Tensor parallelism splits tokens and hidden channels over a grid of ranks.",
        "[mindspeed, tp_2d.py]",
        acts_on=_TP,
        priced=Place.LAYER | Place.ROW,
        one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
    )
    CUDA_GRAPH = _switch(
        27,
        "Kernels are launched as a recorded graph, which takes the host out of the layer.",
        "[megatron-0.12, transformer_config.py]",
        acts_on=_ANYTHING,
        priced=Place.LAYER | Place.ROW,
    )
    FINE_GRAIN_INTERLEAVE = _switch(
        28,
        "MindSpore cuts a micro batch in two halves, each of which hides the other's tensor-parallel communication.",
        "[mindformers-1.8, Parallel configuration]",
        acts_on=_TP,
        priced=Place.LAYER,
    )
    DUALPIPEV_DW_DETACH = _switch(
        29,
        "DualPipeV splits weight gradients off in the cool-down too: a shorter bubble for more memory.",
        "[mindspeed-dualpipev]",
        acts_on=Scope.DUALPIPEV,
        priced=Place.PIPELINE,
    )


SWITCHES = {Feature(entry.bit): entry for entry in _ENTRIES}
if list(SWITCHES) != list(Feature):
    raise TypeError("every member of Feature is one entry: give it bit, meaning, source, acts_on and priced")


def _those(features: list[Feature]) -> Feature:
    return Feature(sum(features))


DEFAULT_FEATURES = _those([f for f, switch in SWITCHES.items() if switch.by_default])
SEARCHED_FEATURES = tuple(f for f, switch in SWITCHES.items() if switch.searched)
UNPRICED_FEATURES = _those([f for f, switch in SWITCHES.items() if not switch.priced])
FUSIONS = tuple(f for f, switch in SWITCHES.items() if switch.one_of is Exclusive.TENSOR_PARALLEL_MATMULS)


def acting_on(scope: Scope) -> Feature:
    """The switches that need any of ``scope`` to act."""
    return _those([f for f, switch in SWITCHES.items() if switch.acts_on & scope])


@lru_cache(maxsize=8192)
def acting_in(scope: Scope) -> Feature:
    """The switches that have all they act on where ``scope`` is there."""
    return _those([f for f, switch in SWITCHES.items() if not switch.acts_on & ~scope])


PRICED = {place: int(_those([f for f, switch in SWITCHES.items() if switch.priced & place])) for place in Place}


def priced_bits(feature: Feature, place: Place) -> int:
    """The bits of ``feature`` as a formula of ``place`` may ask for them; ``PlaceError`` where its entry prices it elsewhere."""
    bits = int(feature)
    if bits & ~PRICED[place]:
        raise PlaceError(f"{feature.name} is asked for in {place.name}, and its entry in switches.py does not price it there")
    return bits

"""The switches that frameworks offer in addition to the degrees, one entry each; all other facts are derived from the entries.

An entry says what the switch acts on, where it is priced, its default, how a search treats it and what excludes it. The masks
of layer keys, sharding and pipelines, the canonical form, legality, the search space, drafts of launch files,
``docs/switches.md`` and the API's descriptions follow from it. A new switch needs an entry and its formula (CONTRIBUTING.md).
"""

from __future__ import annotations

from enum import Enum, IntFlag, unique
from functools import lru_cache

from cost_models.shapes.traits import Library
from documents.late_methods import dataclass
from documents.sentences import Sentence


class Scope(IntFlag):
    """Parts of a model, a layout or its options that switches act on; ``effective_switches.py`` has the condition for each."""

    TENSOR_PARALLEL = 1 << 0  # tp above 1
    CONTEXT_PARALLEL = 1 << 1  # cp above 1
    REPLICAS = 1 << 2  # some parameters, dense or expert, sit on several ranks
    SHARDED_OPTIMIZER = 1 << 3  # zero_stage above 0
    INTERLEAVED = 1 << 4  # the interleaved schedule
    DUALPIPEV = 1 << 5  # the schedule dualpipev
    ROUTED = 1 << 6  # tokens travel to their experts: ep x etp above 1
    GATHERED = 1 << 7  # the dispatcher is allgather
    EXCHANGED = 1 << 8  # the dispatcher is not allgather
    EXPERTS = 1 << 9  # the model has MoE layers
    CAPACITY = 1 << 10  # the model's experts have a capacity factor
    GATED_MLP = 1 << 11  # the model's MLPs are gated linear units
    ROTARY = 1 << 12  # the model's positions are not learned
    SHARED_EXPERTS = 1 << 13  # each of its tokens runs through some experts
    STAGED = 1 << 14  # the dispatcher goes between domains, then inside: two_level or hierarchical
    INDEXED = 1 << 15  # an indexer chooses the tokens that attention sees


ANY_DISPATCHER = Scope.GATHERED | Scope.EXCHANGED


class Place(IntFlag):
    """Where a switch is priced. Rows that differ in a switch share a price everywhere else, so reading it there is an error."""

    LAYER = 1  # once per layer key (``layer_keys``)
    SHARDING = 2  # once per sharding of the parameters (``priced_groups``)
    PIPELINE = 4  # once per pipeline, which all rows of a group share (``priced_groups``)
    ROW = 8  # once for each row


class Exclusive(Enum):
    """Groups of switches that replace the same thing in different ways; at most one of a group can be on."""

    TENSOR_PARALLEL_MATMULS = "the matmuls and collectives of tensor parallelism"
    MASTER_WEIGHTS = "the place of the master weights"
    EXPERT_EXCHANGE = "what runs beside the exchange of tokens"


class InSearch(Enum):
    """How a search treats a switch by default, if the target offers it.

    ``ON`` is for switches that save time and cost nothing. Some switches trade time for memory: a search starts with the faster
    setting and tries the leaner one if memory does not suffice (``LEAN_ON`` and ``LEAN_OFF`` name the leaner one). Switches that
    only save time, at a cost that is not priced, are on only ``IF_ALLOWED``.
    """

    ON = "on where the target takes it"
    LEAN_ON = "off, and on where a plan does not fit"
    LEAN_OFF = "on where the target takes it, and off where a plan does not fit"
    WITH_SCHEDULE = "on with dualpipev, both ways with interleaved-1f1b"
    IF_ALLOWED = "left out; allowed, on where the target takes it"
    LEFT_OUT = "left out; allowed, both ways"


LEFT_OUT = (InSearch.IF_ALLOWED, InSearch.LEFT_OUT)


@dataclass(frozen=True)
class Switch:
    """One switch. ``acts_on``: it has no effect unless all of this is present. ``priced``: 0 if only launch files use it.

    ``by_default``: its value in a strategy unless given. ``in_search``: its treatment by a search, with the reason ``why`` if it
    is left out. ``library``: the device software that it belongs to; ``None``: it is available on any device.
    """

    bit: int
    meaning: str
    source: str
    acts_on: Scope
    priced: Place
    by_default: bool
    in_search: InSearch
    why: str
    library: Library | None
    one_of: Exclusive | None


class PlaceError(LookupError):
    """A formula read a switch in a place where the switch's entry does not price it."""


_ENTRIES: list[Switch] = []
_ANYTHING, _NOWHERE = Scope(0), Place(0)
_LAYER, _SHARDING, _PIPELINE, _ROW = Place
_TP = Scope.TENSOR_PARALLEL
_EXPERTS = Scope.EXPERTS
_ROUTED = Scope.EXPERTS | Scope.ROUTED


def _switch(
    bit: int,
    acts_on: Scope,
    priced: Place,
    *,
    source: str,
    meaning: str,
    by_default: bool = False,
    in_search: InSearch = InSearch.LEFT_OUT,
    why: str = "",
    library: Library | None = None,
    one_of: Exclusive | None = None,
) -> int:
    if by_default:
        in_search = InSearch.ON
    elif not priced:
        why = "no price depends on it"
    _ENTRIES.append(
        Switch(
            1 << bit,
            Sentence.whole(meaning),
            source,
            acts_on,
            priced,
            by_default,
            in_search,
            Sentence.whole(why),
            library,
            one_of,
        )
    )
    return 1 << bit


@unique
class Feature(IntFlag):
    """The switches by name, as in jobs and run records."""

    # fmt: off
    FLASH_ATTENTION = _switch(0, _ANYTHING, _LAYER | _ROW, by_default=True,
        source="[megatron-0.12, arguments.py]",
        meaning="Attention runs in one fused kernel that keeps no scores for the backward.")
    FUSED_NORM = _switch(1, _ANYTHING, _LAYER, by_default=True,
        source="[mindspeed, features_manager]", meaning="Norms run in one kernel, which reads, writes and keeps less memory.")
    FUSED_SWIGLU = _switch(2, Scope.GATED_MLP, _LAYER, by_default=True,
        source="[mindspeed, features_manager]",
        meaning="The activation of a gated MLP runs in one kernel, which keeps its inputs and its output only.")
    FUSED_ROPE = _switch(3, Scope.ROTARY, _LAYER, by_default=True,
        source="[mindspeed, features_manager]", meaning="Rotary positions are applied in one kernel.")
    REPLICATED_EMBEDDING = _switch(4, _TP, _LAYER | _SHARDING,
        why="no framework offers it",
        source="[mindformers-1.8, config_args.py]",
        meaning="Every tensor-parallel rank holds the whole embedding table, which saves the collective behind it.")
    MC2 = _switch(5, _TP, _LAYER, one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
        in_search=InSearch.ON, library=Library.CANN,
        source="[mindspeed, mc2.py]",
        meaning="Matmuls and tensor-parallel collectives run as one fused operator of the Ascend library.")
    COC = _switch(6, _TP, _LAYER, one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
        in_search=InSearch.ON, library=Library.CANN,
        source="[mindspeed, locl_coc.py]",
        meaning="Matmuls are cut in parts, whose tensor-parallel collectives run beside the next part.")
    TP_COMM_OVERLAP = _switch(7, _TP, _LAYER, one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
        in_search=InSearch.ON, library=Library.CUDA,
        source="[megatron-0.12, arguments.py]",
        meaning="Transformer Engine runs tensor-parallel collectives beside the matmuls that feed or need them.")
    OVERLAP_GRAD_REDUCE = _switch(8, Scope.REPLICAS, _ROW, by_default=True,
        source="[megatron-0.12, distributed_data_parallel.py]",
        meaning="Gradients are reduced over the replicas beside the last backward.")
    OVERLAP_PARAM_GATHER = _switch(9, Scope.REPLICAS | Scope.SHARDED_OPTIMIZER, _ROW, by_default=True,
        source="[megatron-0.12, distributed_data_parallel.py]",
        meaning="Updated weights are gathered beside the first forward of the next step.")
    OVERLAP_P2P = _switch(10, Scope.INTERLEAVED, _ROW, by_default=True,
        source="[megatron-0.12, schedules.py]",
        meaning="Sends between the chunks of the interleaved schedule run beside other chunks.")
    REUSE_FP32_PARAM = _switch(11, _ANYTHING, _SHARDING, one_of=Exclusive.MASTER_WEIGHTS,
        in_search=InSearch.LEAN_ON,
        source="[mindspeed, reuse_fp32_param.py]", meaning="Master weights are kept as the 16-bit weights and a 16-bit rest.")
    SWAP_OPTIMIZER = _switch(12, _ANYTHING, _SHARDING, one_of=Exclusive.MASTER_WEIGHTS,
        in_search=InSearch.LEAN_ON,
        source="[mindspeed, swap-optimizer]", meaning="Optimizer states live on the host and visit the device during the step.")
    SWAP_ATTENTION = _switch(13, _ANYTHING, _LAYER,
        in_search=InSearch.LEAN_ON,
        source="[mindspeed, swap_attention.md]", meaning="What attention keeps for the backward waits on the host.")
    GRAD_REDUCE_IN_BF16 = _switch(14, _ANYTHING, _LAYER | _SHARDING | _ROW,
        why="it changes the numbers of the training",
        source="[megatron-0.12, arguments.py]", meaning="Gradients are accumulated and reduced in 16 bits.")
    MOE_GROUPED_GEMM = _switch(15, _EXPERTS, _LAYER | _SHARDING, by_default=True,
        source="[megatron-0.12, arguments.py]",
        meaning="The experts of a rank run in one grouped matmul instead of one after the other.")
    MOE_PERMUTE_FUSION = _switch(16, _EXPERTS, _LAYER, by_default=True,
        source="[megatron-0.12, arguments.py]", meaning="Tokens are sorted by expert, and back, in one kernel.")
    MOE_PERMUTATION_ASYNC_COMM = _switch(17, _ROUTED, _NOWHERE,
        source="[mindspeed, features_manager/moe]", meaning="Tokens are exchanged asynchronously while others are sorted.")
    MOE_ALLGATHER_OVERLAP_COMM = _switch(18, _ROUTED | Scope.GATHERED, _LAYER,
        in_search=InSearch.LEAN_OFF, one_of=Exclusive.EXPERT_EXCHANGE,
        source="[mindspeed-moe-overlap]",
        meaning="With the allgather dispatcher, expert communication runs beside the experts' matmuls.")
    MOE_ALLTOALL_OVERLAP_COMM = _switch(19, _ROUTED | Scope.EXCHANGED, _LAYER,
        in_search=InSearch.LEAN_OFF, one_of=Exclusive.EXPERT_EXCHANGE,
        source="[mindspeed-moe-overlap]",
        meaning="With an all-to-all dispatcher, expert communication runs beside the experts' matmuls.")
    MOE_COMM_OVERLAP = _switch(20, _ROUTED, _LAYER | _PIPELINE,
        in_search=InSearch.WITH_SCHEDULE, one_of=Exclusive.EXPERT_EXCHANGE,
        source="[mindspeed-fb-overlap]",
        meaning="A forward runs merged with another micro batch's backward, each behind the other's expert communication.")
    MOE_SHARED_EXPERT_OVERLAP = _switch(21, _ROUTED | Scope.SHARED_EXPERTS, _LAYER,
        in_search=InSearch.LEAN_OFF,
        source="[megatron-0.12, transformer_config.py]", meaning="Shared experts run beside the exchange of the routed ones.")
    MOE_TP_EXTEND_EP = _switch(22, _ROUTED, _NOWHERE,
        source="[mindspeed, tp_extend_ep.py]", meaning="Tensor-parallel ranks hold whole experts instead of slices of them.")
    MOE_PAD_TO_CAPACITY = _switch(23, _EXPERTS | Scope.CAPACITY, _LAYER,
        why="it only adds rows",
        source="[megatron-0.12, transformer_config.py]",
        meaning="Every expert's rows are filled up to its capacity, so that shapes never change.")
    MOE_ZERO_MEMORY = _switch(24, _EXPERTS, _LAYER,
        in_search=InSearch.LEAN_ON,
        source="[mindspeed, moe-zero-memory.md]",
        meaning="Most of what experts keep for the backward is dropped and computed again.")
    CP_SEND_RECV_OVERLAP = _switch(25, Scope.CONTEXT_PARALLEL, _NOWHERE,
        source="[mindspeed, features_manager]", meaning="Context parallelism sends and receives its blocks at the same time.")
    TP_2D = _switch(26, _TP, _LAYER, one_of=Exclusive.TENSOR_PARALLEL_MATMULS,
        why="it wants sequence parallelism off", library=Library.CANN,
        source="[mindspeed, tp_2d.py]", meaning="Tensor parallelism splits tokens and hidden channels over a grid of ranks.")
    CUDA_GRAPH = _switch(27, _ANYTHING, _LAYER | _ROW,
        in_search=InSearch.IF_ALLOWED, library=Library.CUDA,
        why="it wants fixed shapes, and the memory of its graphs is not priced",
        source="[megatron-0.12, transformer_config.py]",
        meaning="Kernels are launched as a recorded graph, which takes the host out of the layer.")
    FINE_GRAIN_INTERLEAVE = _switch(28, _TP, _LAYER,
        in_search=InSearch.IF_ALLOWED, why="what its halves keep in memory and lose in matmuls is not priced",
        source="[mindformers-1.8, Parallel configuration]",
        meaning="MindSpore cuts a micro batch in two halves, each of which hides the other's tensor-parallel communication.")
    DUALPIPEV_DW_DETACH = _switch(29, Scope.DUALPIPEV, _PIPELINE,
        in_search=InSearch.LEAN_OFF,
        source="[mindspeed-dualpipev]",
        meaning="DualPipeV splits weight gradients off in the cool-down too: a shorter bubble for more memory.")
    BF16_MOMENTS = _switch(30, _ANYTHING, _SHARDING,
        why="it changes the numbers of the training",
        source="[megatron-0.19, arguments.py]", meaning="Adam's two moments are kept in 16 bits instead of 32.")
    FP8_ACTIVATION_INPUT = _switch(31, Scope.GATED_MLP, _LAYER,
        why="it changes the numbers of the training",
        source="[megatron-0.12, fused_bias_swiglu.py]",
        meaning="What enters the activation function of a gated MLP waits for the backward in 8 bits.")
    MOE_TIER_STREAMS = _switch(32, _ROUTED | Scope.STAGED, _LAYER, library=Library.CANN,
        why="no framework offers it",
        source="[pangu-ultra-moe-2]",
        meaning="A staged exchange of tokens has a stream for each tier of the network, which carry its parts at the same time.")
    SPARSE_ATTENTION_KERNEL = _switch(33, Scope.INDEXED, _LAYER, by_default=True,
        source="[mindspeed-llm, mla_feature.py]",
        meaning="One fused kernel attends to the chosen tokens alone, over latents; without it a mask hides all others.")
    FUSED_INDEXER = _switch(34, Scope.INDEXED, _LAYER, by_default=True,
        source="[mindspeed-llm, dsa_indexer_feature.py]",
        meaning="Fused kernels score and choose tokens, and train the indexer, without writing its scores to memory.")
    OPTIMIZER_CPU_OFFLOAD = _switch(35, _ANYTHING, _SHARDING, one_of=Exclusive.MASTER_WEIGHTS,
        in_search=InSearch.LEAN_ON, library=Library.CUDA,
        source="[megatron-0.12, hybrid_optimizer.py]",
        meaning="Optimizer states live on the host, whose processors update them: gradients go there, and weights come back.")
    CHUNKED_LOSS = _switch(36, _ANYTHING, _LAYER | _ROW,
        why="it was counted on a processor, and no run with it is known",
        source="[mindspeed-llm, fsdp2/features/chunkloss.py]",
        meaning="Head and loss run by chunks of 1,024 tokens of a sample, each with its gradients, which the forward adds up.")
    # fmt: on


SWITCHES = {Feature(entry.bit): entry for entry in _ENTRIES}
if list(SWITCHES) != list(Feature):
    raise TypeError("every member of Feature is one entry: give it bit, acts_on, priced, source and meaning")
if unexplained := [f.name for f, entry in SWITCHES.items() if (entry.in_search in LEFT_OUT) != bool(entry.why)]:
    raise TypeError(f"an entry says why exactly where a search leaves the switch out, unlike {unexplained}")


def _those(features: list[Feature]) -> Feature:
    return Feature(sum(features))


DEFAULT_FEATURES = _those([f for f, switch in SWITCHES.items() if switch.by_default])
FUSED_KERNELS = Feature.FUSED_NORM | Feature.FUSED_SWIGLU | Feature.FUSED_ROPE
UNPRICED_FEATURES = _those([f for f, switch in SWITCHES.items() if not switch.priced])


def treated(*ways: InSearch) -> Feature:
    """The switches that a search treats in one of these ways."""
    return _those([f for f, switch in SWITCHES.items() if switch.in_search in ways])


def alternatives(kind: Exclusive) -> tuple[Feature, ...]:
    """The switches that replace the same thing and exclude each other."""
    return tuple(f for f, switch in SWITCHES.items() if switch.one_of is kind)


FUSIONS = alternatives(Exclusive.TENSOR_PARALLEL_MATMULS)


def acting_on(scope: Scope) -> Feature:
    """The switches that need any part of ``scope``."""
    return _those([f for f, switch in SWITCHES.items() if switch.acts_on & scope])


@lru_cache(maxsize=8192)
def acting_in(scope: Scope) -> Feature:
    """The switches that have an effect if exactly ``scope`` is present."""
    return _those([f for f, switch in SWITCHES.items() if not switch.acts_on & ~scope])


PRICED = {place: int(_those([f for f, switch in SWITCHES.items() if switch.priced & place])) for place in Place}


def priced_bits(feature: Feature, place: Place) -> int:
    """The bits of ``feature`` for a formula of ``place``; raises ``PlaceError`` if its entry does not price it there."""
    bits = int(feature)
    if bits & ~PRICED[place]:
        raise PlaceError(
            Sentence("{} is asked for in {}, and its entry in switches.py does not price it there", feature.name, place.name)
        )
    return bits

"""What formulas ask of a device and of a training stack: the one place where either is told apart by its name.

A hardware family or a stack that the tables do not name has the defaults: the traits of a GPU, and those of a stack with
nothing of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from cost_models.shapes.releases import MINDFORMERS, MINDSPEED_LLM, Ladder
from hardware_profiles.schema import HardwareProfile


class Generation(IntEnum):
    """Of a GPU's matrix instructions, by the precisions that its profile lists: Ampere's and older, Hopper's, Blackwell's."""

    AMPERE = 0
    HOPPER = 1  # brought FP8
    BLACKWELL = 2  # brought NVFP4


class Library(Enum):
    """Of device software, by the devices that it is for: what a switch may be part of, and other devices then lack."""

    CANN = "ascend"
    CUDA = "nvidia"


AMPERE_INSTRUCTION_FRACTION = {Generation.AMPERE: 1.0, Generation.HOPPER: 0.5, Generation.BLACKWELL: 0.25}


@dataclass(frozen=True)
class DeviceTraits:
    """What is different between hardware families, and between generations of one. The defaults are a GPU's.

    Attributes
    ----------
    priors : which column of ``cost_models.constants.CONSTANTS`` is the family's: ``ascend`` or ``gpu``.
    library : whose switches the devices have beside everybody's.
    generation : matrix instructions of a GPU; an Ascend profile leaves the lowest.
    own_fused_attention : fused attention is always the vendor's newest kernel, whatever the software brings.
    one_expert_kernel : a grouped matmul is one kernel; a GPU's is a loop over plain ones, whose sizes the host must know
        [transformer-engine, grouped_linear.py].
    position_bias_fills_mask : a bias on attention scores comes with a full mask, of which no block is skipped
        [mindspeed-attention].
    merged_pairs_overlap_shared_experts : a pass of a merging schedule that runs alone has the shared experts beside its
        exchange [mindspeed-fb-overlap, fwd.py; bwd.py]; Megatron's overlap excludes them.
    softmax_statistics_bytes : that fused attention keeps, a token and head. Ascend's are the maximum and the sum in FP32,
        (B, H, S, 8) [cann]; a GPU's one log-sum-exp in FP32 [flash-attention-2].
    rotary_keeps_inputs : the fused rotary kernel keeps its inputs, views of the whole projection [mindspeed-attention].
    keeps_quantised_inputs : a linear layer that multiplies in 8 bits or fewer keeps its input in 8 bits, as Transformer
        Engine does [transformer-engine, linear.py].
    eager_loss_copies_logits : eager cross-entropy also keeps the FP32 logits less their maximum.
    p2p_buffer_bytes : send and receive buffer of a neighbour pair in a pipeline.
    """

    priors: str = "gpu"
    library: Library | None = None
    generation: Generation = Generation.AMPERE
    own_fused_attention: bool = False
    one_expert_kernel: bool = False
    position_bias_fills_mask: bool = False
    merged_pairs_overlap_shared_experts: bool = False
    softmax_statistics_bytes: int = 4
    rotary_keeps_inputs: bool = False
    keeps_quantised_inputs: bool = True
    eager_loss_copies_logits: bool = False
    p2p_buffer_bytes: int = 0

    @property
    def ampere_instruction_fraction(self) -> float:
        """Share of the matmul peak that Ampere's matrix instruction reaches, which FlashAttention-2 was written for."""
        return AMPERE_INSTRUCTION_FRACTION[self.generation]


GPU = DeviceTraits()
FAMILIES = {
    "ascend": DeviceTraits(
        priors="ascend",
        library=Library.CANN,
        own_fused_attention=True,
        one_expert_kernel=True,
        position_bias_fills_mask=True,
        merged_pairs_overlap_shared_experts=True,
        softmax_statistics_bytes=64,
        rotary_keeps_inputs=True,
        keeps_quantised_inputs=False,
        eager_loss_copies_logits=True,
        p2p_buffer_bytes=2 * 20 * 2**20,  # [cann, P2P_HCCL_BUFFSIZE]
    ),
    "nvidia": replace(GPU, library=Library.CUDA),
    "amd": GPU,
}


def family_traits(family: str) -> DeviceTraits:
    """Traits of a hardware family whatever the generation; a family that is not in the table is taken for a GPU's.

    Parameters
    ----------
    family : str
        ``HardwareProfile.family``.

    Returns
    -------
    DeviceTraits
    """
    return FAMILIES.get(family, GPU)


def device_traits(profile: HardwareProfile) -> DeviceTraits:
    """Traits of one product: those of its family, and its generation.

    Parameters
    ----------
    profile : HardwareProfile
        One product, in SI units.

    Returns
    -------
    DeviceTraits
    """
    return replace(family_traits(profile.family), generation=_generation(profile.matmul_flops_per_s))


def _generation(precisions: Collection[str]) -> Generation:
    """The newest that a precision of the profile tells."""
    brought = {"nvfp4": Generation.BLACKWELL, "fp8": Generation.HOPPER}
    return max((brought.get(precision, Generation.AMPERE) for precision in precisions), default=Generation.AMPERE)


@dataclass(frozen=True)
class SoftwareTraits:
    """What is different between training stacks. The defaults are those of a stack that brings nothing of its own.

    Attributes
    ----------
    eager : the host dispatches every kernel; else a graph is compiled ahead of the step.
    reads_whole_mask : fused attention is given a mask of all scores, a byte each, where the others build the causal one from a
        tile (MindFormers' ``use_attn_mask_compression`` is off by default, but needed with CP) [mindformers-1.8].
    overlaps_weight_gradients : collectives of a tensor-parallel backward run beside the gradients of weights. MindFormers' graphs
        do that with ``matmul_grad_comm_overlap`` alone, off by default [mindformers-1.8, config_args.py].
    fp32_shards : weights are sharded in FP32 and cast when they are gathered, without a master copy
        [pytorch-fsdp, section 4.4].
    early_stop_year : the release from which a recomputed layer stops at the last tensor that its backward needs, as PyTorch's
        own checkpoints do from 2.1 on [pytorch-checkpoint]. None: it runs whole, as Megatron's and DeepSpeed's do.
    uses_transformer_engine : linear layers are Transformer Engine's [transformer-engine, linear.py].
    router_keeps_norm_output_year : the release from which a router keeps no FP32 copy of its input; core 0.13 was published in
        July 2025 [megatron-0.19, moe_utils.py]. None: it keeps one.
    shards_accumulated_gradients : under ZeRO-2 in a pipeline every micro batch scatters its gradients into the shard
        [mindformers-1.8, Parallel configuration, gradient_accumulation_shard]; other stacks add them up whole and reduce with
        the last one [megatron-0.12, schedules.py; pytorch, schedules.py].
    bf16_gradient_bytes : that the backward writes beside the buffer in which BF16 gradients add up, a parameter
        [deepspeed, bf16_optimizer.py].
    repeats_allocations : every micro batch asks for the sizes of the one before, on one stream, as Megatron's schedules do but
        for dropless experts. FSDP gathers weights on a stream of its own, whose blocks others wait for
        [pytorch-fsdp, section 3.4], DeepSpeed flattens gradients into buckets [deepspeed, bf16_optimizer.py].
    releases : which of them device time differs between; None: not known.
    """

    eager: bool = True
    reads_whole_mask: bool = False
    overlaps_weight_gradients: bool = True
    fp32_shards: bool = False
    early_stop_year: float | None = None
    uses_transformer_engine: bool = True
    router_keeps_norm_output_year: float | None = None
    shards_accumulated_gradients: bool = False
    bf16_gradient_bytes: float = 0.0
    repeats_allocations: bool = False
    releases: Ladder | None = None


@dataclass(frozen=True)
class Stack:
    """A training stack that a job or a run record may name.

    Attributes
    ----------
    devices : that it runs on, as ``DeviceTraits.priors`` calls them.
    traits : what formulas ask of it.
    graph_by_default : a job that does not say how it is executed compiles a graph.
    """

    devices: str
    traits: SoftwareTraits = SoftwareTraits()
    graph_by_default: bool = False


ROUTER_RELEASE = 2025.5
PYTORCH_EARLY_STOP = 2023.75  # PyTorch 2.1
STACKS = {  # the first one of a kind of devices is what runs there where nothing is said
    "mindspeed-llm": Stack("ascend", SoftwareTraits(releases=MINDSPEED_LLM)),
    "mindformers": Stack(
        "ascend",
        SoftwareTraits(
            reads_whole_mask=True, overlaps_weight_gradients=False, shards_accumulated_gradients=True, releases=MINDFORMERS
        ),
        graph_by_default=True,
    ),
    "megatron-lm": Stack("gpu", SoftwareTraits(router_keeps_norm_output_year=ROUTER_RELEASE, repeats_allocations=True)),
    "nemo": Stack("gpu", SoftwareTraits(router_keeps_norm_output_year=ROUTER_RELEASE, repeats_allocations=True)),
    "megatron-deepspeed": Stack("gpu", SoftwareTraits(bf16_gradient_bytes=2.0)),
    "fsdp": Stack("gpu", SoftwareTraits(fp32_shards=True, early_stop_year=PYTORCH_EARLY_STOP, uses_transformer_engine=False)),
    "maxtext": Stack("gpu", graph_by_default=True),
}


def stacks_of(family: str) -> tuple[str, ...]:
    """Names of the stacks that run on a hardware family, its usual one first.

    Parameters
    ----------
    family : str
        ``HardwareProfile.family``.

    Returns
    -------
    tuple[str, ...]
    """
    devices = family_traits(family).priors
    return tuple(name for name, stack in STACKS.items() if stack.devices == devices)


def default_stack(family: str) -> str:
    """The stack of a hardware family where a job or a run record does not tell it.

    Parameters
    ----------
    family : str
        ``HardwareProfile.family``.

    Returns
    -------
    str
    """
    return stacks_of(family)[0]


def software_traits(stack: str, execution: str) -> SoftwareTraits:
    """Traits of a stack under ``execution`` (``eager`` or ``graph``); one that is not in the table has the defaults.

    Parameters
    ----------
    stack : str
        ``Software.stack``.
    execution : str
        ``eager`` or ``graph``; anything else counts as a compiled graph.

    Returns
    -------
    SoftwareTraits
    """
    traits = STACKS[stack].traits if stack in STACKS else SoftwareTraits()
    return replace(traits, eager=execution == "eager")

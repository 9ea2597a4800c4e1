"""Traits of devices and of training stacks. No other file tells families or stacks apart by name.

A hardware family or stack that the tables do not name has the defaults: the traits of a GPU, and the traits of a stack without
special features.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum, IntEnum

from cost_models.shapes.releases import MINDFORMERS, MINDSPEED_LLM, Ladder
from documents.late_methods import dataclass
from hardware_profiles.schema import HardwareProfile


class Generation(IntEnum):
    """Generation of a GPU's matrix instructions, from its compute capability.

    Ada and the workstations' Blackwell, of 12.0, multiply with Ampere's.
    """

    AMPERE = 0  # and older
    HOPPER = 1
    BLACKWELL = 2


class Library(Enum):
    """Device software by its devices. A switch can belong to one; devices of the other then lack the switch."""

    CANN = "ascend"
    CUDA = "nvidia"


# Fraction of the matmul peak that Ampere's matrix instruction reaches; FlashAttention-2 uses this instruction.
AMPERE_INSTRUCTION_FRACTION = {Generation.AMPERE: 1.0, Generation.HOPPER: 0.5, Generation.BLACKWELL: 0.25}


@dataclass(frozen=True)
class Chips:
    """Devices that run a recipe: those with a matmul rate in ``precision`` and a compute capability in one of ``spans``.

    A span has its first capability, and the first beyond it.
    """

    precision: str = "fp8"
    spans: tuple[tuple[float, float], ...] = ((0.0, math.inf),)

    def has(self, profile: HardwareProfile) -> bool:
        """Whether a device of the profile is one of them."""
        capability = profile.least_compute_capability
        return self.precision in profile.matmul_flops_per_s and any(first <= capability < end for first, end in self.spans)


@dataclass(frozen=True)
class DeviceTraits:
    """Differences between hardware families, and between generations of one family. The defaults describe a GPU.

    Attributes
    ----------
    priors : the family's column of ``cost_models.constants.CONSTANTS``: ``ascend`` or ``gpu``.
    library : the library whose switches the devices have, in addition to the general ones.
    generations : compute capabilities from which on a GPU has the matrix instructions of a generation.
    generation : the one of this product, which tells what runs; an Ascend profile has the lowest.
    possible_generations : those that this product may be; the slowest is priced. A GPU of unstated capability may be its
        ``generation`` or a newer one.
    own_fused_attention : fused attention always uses the vendor's newest kernel, under any software.
    one_expert_kernel : a grouped matmul is one kernel. On a GPU it is a loop over plain ones, and the host must know their sizes
        [transformer-engine, grouped_linear.py].
    position_bias_fills_mask : a bias on attention scores needs a full mask, so no block is skipped [mindspeed-attention].
    merged_pairs_overlap_shared_experts : a pass of a merging schedule that runs alone overlaps the shared experts with its
        exchange [mindspeed-fb-overlap, fwd.py; bwd.py]; Megatron's overlap excludes them.
    merged_pairs_keep_outputs : a chunk of a V whose passes are merged keeps the tensor that it sends, because its layer's graph
        has it as well [mindspeed-fb-overlap, fwd.py].
    softmax_statistics_bytes : bytes that fused attention keeps for each token and head. On Ascend the maximum and the sum in
    FP32,
        (B, H, S, 8) [cann]; on a GPU one log-sum-exp in FP32 [flash-attention-2].
    rotary_keeps_inputs : the fused rotary kernel keeps its inputs, views of the whole projection, in releases before
        ``SoftwareTraits.rotary_tables_year`` [mindspeed-attention].
    keeps_quantised_inputs : a linear layer that multiplies in 8 bits or fewer keeps its input in 8 bits, as Transformer
        Engine does [transformer-engine, linear.py].
    recipe_needs : recipes of 8-bit matmuls by framework's name, each with the chips that run it.
    recipes_source : where the chips of each recipe are stated.
    fp8_recipes : those of ``recipe_needs`` that this product runs.
    takes_any_layout : matmuls in 8 bits take operands by rows or by columns; a GPU's from Blackwell on.
    has_hif8 : devices that multiply in FP8 also do so in HiF8, at the same rate [950-white-paper].
    p2p_buffer_bytes : send and receive buffer of a neighbour pair in a pipeline.
    most_decode_graphs : graphs that an inference engine captures at most: all of its sizes [vllm, cudagraph_capture_sizes]; on
        Ascend those that the streams left room for [vllm-ascend-graphs].
    """

    priors: str = "gpu"
    library: Library | None = None
    generations: tuple[tuple[float, Generation], ...] = ()
    generation: Generation = Generation.AMPERE
    possible_generations: tuple[Generation, ...] = (Generation.AMPERE,)
    own_fused_attention: bool = False
    one_expert_kernel: bool = False
    position_bias_fills_mask: bool = False
    merged_pairs_overlap_shared_experts: bool = False
    merged_pairs_keep_outputs: bool = False
    softmax_statistics_bytes: int = 4
    rotary_keeps_inputs: bool = False
    keeps_quantised_inputs: bool = True
    recipe_needs: tuple[tuple[str, Chips], ...] = ()
    recipes_source: str = ""
    fp8_recipes: tuple[str, ...] = ()
    takes_any_layout: bool = False
    has_hif8: bool = False
    p2p_buffer_bytes: int = 0
    most_decode_graphs: int = 51


GPU = DeviceTraits()
PER_TENSOR = ("delayed", "tensorwise")
ASCEND_RECIPES = (*PER_TENSOR, "blockwise", "mxfp8", "mxfp8-32x32")
ADA, HOPPER, BLACKWELL, WORKSTATION = 8.9, 9.0, 10.0, 12.0
NVIDIA_FP8 = Chips(spans=((ADA, math.inf),))
CDNA3, CDNA4, CDNA5 = (9.4, 9.5), (9.5, 9.6), (12.5, 12.6)
AMD_FP8 = Chips(spans=(CDNA3, CDNA4, CDNA5))  # its fork has no blockwise
FAMILIES = {
    "ascend": DeviceTraits(
        priors="ascend",
        library=Library.CANN,
        own_fused_attention=True,
        one_expert_kernel=True,
        position_bias_fills_mask=True,
        merged_pairs_overlap_shared_experts=True,
        merged_pairs_keep_outputs=True,
        softmax_statistics_bytes=64,
        rotary_keeps_inputs=True,
        keeps_quantised_inputs=False,
        recipe_needs=tuple((recipe, Chips()) for recipe in ASCEND_RECIPES),
        recipes_source="[mindspeed, te/pytorch/fp8/recipes]",
        takes_any_layout=True,
        has_hif8=True,
        p2p_buffer_bytes=2 * 20 * 2**20,  # [cann, P2P_HCCL_BUFFSIZE]
        most_decode_graphs=39,
    ),
    "nvidia": replace(
        GPU,
        library=Library.CUDA,
        generations=((HOPPER, Generation.HOPPER), (BLACKWELL, Generation.BLACKWELL), (WORKSTATION, Generation.AMPERE)),
        recipe_needs=(
            *((recipe, NVIDIA_FP8) for recipe in PER_TENSOR),
            ("blockwise", Chips(spans=((HOPPER, math.inf),))),
            ("mxfp8", Chips(spans=((BLACKWELL, WORKSTATION),))),
        ),
        recipes_source="[transformer-engine, quantization.py]",
    ),
    "amd": replace(
        GPU,
        generations=((CDNA3[0], Generation.HOPPER),),
        recipe_needs=(*((recipe, AMD_FP8) for recipe in PER_TENSOR), ("mxfp8", Chips(spans=(CDNA4, CDNA5)))),
        recipes_source="[transformer-engine-rocm, quantization.py]",
    ),
}


def family_traits(family: str) -> DeviceTraits:
    """Traits of a hardware family without its generation; an unknown family has a GPU's."""
    return FAMILIES.get(family, GPU)


def device_traits(profile: HardwareProfile) -> DeviceTraits:
    """Traits of one product: its family's traits, and its generation."""
    family, capability = family_traits(profile.family), profile.least_compute_capability
    reached = [generation for first, generation in family.generations if capability >= first]
    generation = reached[-1] if reached else Generation.AMPERE
    newer = family.generations[len(reached) :] if profile.lacks_compute_capability else ()
    possible = (generation, *(each for _, each in newer))
    return replace(
        family,
        generation=generation,
        possible_generations=possible,
        fp8_recipes=tuple(recipe for recipe, chips in family.recipe_needs if chips.has(profile)),
        takes_any_layout=family.takes_any_layout or set(possible) == {Generation.BLACKWELL},
    )


@dataclass(frozen=True)
class SoftwareTraits:
    """Differences between training stacks. The defaults describe a stack without special features.

    Attributes
    ----------
    eager : the host dispatches every kernel; otherwise a graph is compiled before the step.
    reads_whole_mask : fused attention reads a mask of all scores, a byte each; other stacks build the causal mask from a tile
        (MindFormers' ``use_attn_mask_compression`` is off by default, but needed with CP) [mindformers-1.8].
    overlaps_weight_gradients : collectives of a tensor-parallel backward overlap the weight gradients. MindFormers' graphs do so
        only with ``matmul_grad_comm_overlap``, off by default [mindformers-1.8, config_args.py].
    fp32_shards : weights are sharded in FP32 and cast when they are gathered, without a master copy
        [pytorch-fsdp, section 4.4].
    pipelines_keep_whole_stages : see ``fully_sharded.keeps_whole_stages`` [pytorch, stage.py].
    units_year : first release of Megatron-FSDP, whose units are layers: under ZeRO-3 weights outside of them are gathered once a
        step and stay, and replicas of shards add their gradients with a step's last micro batch; core 0.12
        [megatron-0.19, megatron_fsdp/megatron_fsdp.py, param_and_grad_buffer.py].
    keeps_ends_year : first release that keeps the memory of these beside the optimizer; core 0.18. ``None``: it is given back.
    gathers_ahead_year : see ``fully_sharded.layers_ahead`` and ``layers_queued``: first release in which layers are gathered
        ahead, and gradients wait for their reduction, by their number of parameters; core 0.14. ``None``: one layer is.
    room_for_layers_year : first release since then in which two layers' gradients may wait however large they are; core 0.16.
    active_chunks_year : first release whose schedules keep no more than three chunks of a rank gathered; PyTorch 2.10, whose fix
        for more chunks was written in October 2025 [pytorch, schedules.py]. ``None``: all stay.
    early_stop_year : first release in which a recomputed layer stops at the last tensor that its backward needs, as PyTorch's
        own checkpoints do from 2.1 on [pytorch-checkpoint]. ``None``: it runs whole, as in Megatron and DeepSpeed.
    uses_transformer_engine : linear layers are Transformer Engine's [transformer-engine, linear.py].
    own_kernels : norms, gated activations, rotary positions and the loss have kernels of their own unless a job says otherwise.
        Plain PyTorch runs them operator by operator.
    fuses_by_switch : its scripts switch fused norms, activations and rotary positions on for the models that have them, so that
        they are usual although the stack has no kernels of its own [mindspeed-llm, fsdp2/models/qwen3/qwen3_moe.py].
    fp32_router_experts : fewest experts from which its usual scripts route in FP32, as Megatron then asks for
        [megatron-0.12, arguments.py]. ``None``: they route in 16 bits.
    fp32_router_year : first release that can; core 0.12, whose option was written in March 2025. ``None``: all can.
    router_keeps_norm_output_year : first release in which a router in FP32 keeps the norm's output in 16 bits; core 0.13 was
        published in July 2025 [megatron-0.19, moe_utils.py]. ``None``: it keeps an FP32 copy.
    copied_router_input : tokens are copied for their experts and for an FP32 router, so that neither keeps the norm's output
        itself [megatron-0.12, router.py, token_dispatcher.py].
    sorted_map_year : first release whose plain permutation of tokens sorts the map of tokens to experts; after core 0.16
        [megatron-0.19, moe_utils.py].
    gate_offset_year : first release whose unfused gated activation adds an offset to the value, and keeps the sum; core 0.15
        [megatron-0.19, mlp.py]. ``None``: it keeps none.
    expert_weight_year : first release that multiplies an expert's activation by the weight of its token, core 0.12.1; before,
        and with ``None``, the expert's output is multiplied [megatron-0.12, experts.py].
    expert_weights_fused : the fused activation does that as well. MindSpeed has an operator of its own for it
        [mindspeed, moe_layer_overlap].
    in_place_loss_year : first release whose eager cross-entropy subtracts the maximum of the logits in place; MindSpeed-LLM's
        does since August 2025 [mindspeed-llm, commit 8f37759b]. Before, and with ``None``, it holds another copy of the FP32
        logits.
    grouped_exchange_year : first release whose Ulysses does not repeat keys and values for every head before it exchanges them
        [mindspeed-llm, commit 7cbbd623].
    loss_ends_first : peaks of runs show that the loss is over when the head's backward starts.
    whole_sends_year : first release whose pipeline sends the hidden state as a rank holds it: whole without sequence parallelism
        [megatron-0.12, schedules.py]. Before, and with ``None``, each tensor-parallel rank sends a slice
        [narayanan2021, section 4.1].
    shards_accumulated_gradients : under ZeRO-2 in a pipeline every micro batch scatters its gradients into the shard
        [mindformers-1.8, Parallel configuration, gradient_accumulation_shard]. Other stacks accumulate whole gradients and reduce
        them with the last micro batch [megatron-0.12, schedules.py; pytorch, schedules.py].
    bf16_gradient_bytes : bytes a parameter that the backward writes in addition to the accumulation buffer of BF16 gradients
        [deepspeed, bf16_optimizer.py].
    each_optimizer_gathers : the optimizer of experts and that of all other parameters each gather the parameters of both
        [megatron-0.12, distrib_optimizer.py].
    gathers_once_year : first release in which they no longer do; MindSpeed's since September 2025
        [mindspeed, fix_duplicate_allgather.py]. ``None``: none.
    keeps_shared_output : merged passes keep the output of shared experts until the backward of the dispatch
        [megatron-0.19, fine_grained_callables.py].
    repeats_allocations : every micro batch allocates the same sizes as the one before, on one stream. Megatron's schedules do so,
        except with dropless experts. FSDP gathers weights on a stream of its own, whose blocks others wait for
        [pytorch-fsdp, section 3.4]; DeepSpeed flattens gradients into buckets [deepspeed, bf16_optimizer.py].
    splits_adapters : tensor parallelism divides both matrices of an adapter; PEFT divides one [megatron-bridge, peft/utils.py;
        peft, tp_layer.py].
    shares_expert_adapters : the experts of a rank share one adapter [megatron-bridge, peft/lora.py].
    divides_frozen_weights : an optimizer that is shared over replicas divides frozen weights too, and gathers them for each micro
        batch, which has no price: with adapters it is not shared [mindspore, opt_param_mgr.cc].
    norms_inside_linears : the linear layer of fused kernels contains the norm before it, which recompute of norms then leaves
        alone: before queries, keys and values, and before a dense MLP [megatron-0.12, gpt_layer_specs.py; transformer-engine,
        layernorm_linear.py].
    rows_of_heads : fused attention takes queries, keys and values as rows of all heads of a rank: a view of the projection if
        the rank has one head of keys, else a copy. Norms of queries and keys read the projection itself, if they can
        [mindspeed-llm, custom_dot_product_attention.py]. Latents and rope key of latent attention come of one projection, and
        its values are copied for fused attention [mindspeed-llm, multi_latent_attention.py].
    rotary_tables_year : first release whose fused rotary kernel keeps sines and cosines alone; MindSpeed-LLM took it with core
        0.12 [mindspeed, npu_rotary_position_embedding.cpp]. ``None``: none does.
    own_angles : each layer of latent attention keeps a table of its rotary angles [megatron-0.12, multi_latent_attention.py].
    keeps_gathered_inputs : linear layers under sequence parallelism keep what was gathered for them from norms until their
        backward; other stacks keep a rank's part and gather again. A compiled graph gathers again only where it is told to
        (``select_comm_recompute``) [mindformers-1.8, training_graph/transformer/utils.py; mindspore, step_parallel.cc].
    gathers_apart : gathers of sequence parallelism are operators of their own before linear layers, so that these keep what was
        gathered, those of experts and latents among them, and every rank makes whole latents
        [pytorch, tensor/parallel/style.py; torchtitan-0.2, models/deepseek_v3/infra/parallelize.py].
    views_latent_values : values of latent attention are a view of what its up-projection made, which stays
        [torchtitan-0.2, models/deepseek_v3/model/model.py].
    weighs_in_fp32 : outputs of routed experts are multiplied by the weights of their tokens as an FP32 copy of the rows of all
        tokens that a rank routes [torchtitan-0.2, models/moe/moe.py].
    spare_expert_rows : rows without a token that routed tokens have for each expert of a rank, to align their groups
        [torchtitan-0.2, models/moe/utils.py]; torchtitan's newest have none in 16 bits.
    recomputes_routed_activations : recompute of activation functions is of routed experts alone [megatron-0.12, experts.py].
    mxfp8_parameters_year : first release whose optimizer keeps weights in MXFP8 and gathers them through the buffer of gradients;
        core 0.13 [megatron-0.19, param_and_grad_buffer.py].
    shared_projection_input_year : first release whose projection behind attention keeps no input of its own in 8 bits, unless the
        scale is delayed; core 0.14 [megatron-0.19, attention.py]. ``None``: it keeps one.
    own_eight_bit_layers : linear layers in 8 bits are not Transformer Engine's: each forward casts the weights anew and keeps the
        copy for its backward, grouped matmuls keep their input in 16 bits, and what sequence parallelism gathered is kept whole
        [mindspeed, te/pytorch/module/linear.py; grouped_matmul_util.py].
    usual_fp8_recipe : recipe that its scripts for 8 bits ask for, and its launch files here. ``None``: the framework's default.
    copies_by_group : each group of operators copies to the host what it saves for its backward, so what two groups save is copied
        twice [megatron-0.19, fine_grained_activation_offload.py].
    attends_by_blocks : attention whose keys are gathered goes through them block by block, as on a ring, and passes their
        gradients round one in FP32 [pytorch, _context_parallel/_attention.py]; other stacks compute it at once.
    joins_experts : with grouped matmuls the experts of a rank are one matrix [megatron-0.12, experts.py, GroupedMLP].
    releases : the releases between which device time differs; ``None``: not known.
    """

    eager: bool = True
    reads_whole_mask: bool = False
    overlaps_weight_gradients: bool = True
    fp32_shards: bool = False
    pipelines_keep_whole_stages: bool = False
    units_year: float | None = None
    keeps_ends_year: float | None = None
    gathers_ahead_year: float | None = None
    room_for_layers_year: float | None = None
    active_chunks_year: float | None = None
    early_stop_year: float | None = None
    uses_transformer_engine: bool = True
    own_kernels: bool = True
    fuses_by_switch: bool = False
    fp32_router_experts: int | None = 1
    fp32_router_year: float | None = None
    router_keeps_norm_output_year: float | None = None
    copied_router_input: bool = False
    sorted_map_year: float | None = None
    gate_offset_year: float | None = None
    expert_weight_year: float | None = None
    expert_weights_fused: bool = True
    in_place_loss_year: float | None = 0.0
    grouped_exchange_year: float | None = 0.0
    loss_ends_first: bool = False
    whole_sends_year: float | None = None
    shards_accumulated_gradients: bool = False
    bf16_gradient_bytes: float = 0.0
    each_optimizer_gathers: bool = False
    gathers_once_year: float | None = None
    keeps_shared_output: bool = False
    repeats_allocations: bool = False
    splits_adapters: bool = False
    shares_expert_adapters: bool = False
    divides_frozen_weights: bool = False
    norms_inside_linears: bool = False
    rows_of_heads: bool = False
    rotary_tables_year: float | None = None
    own_angles: bool = False
    keeps_gathered_inputs: bool = False
    gathers_apart: bool = False
    views_latent_values: bool = False
    weighs_in_fp32: bool = False
    spare_expert_rows: int = 0
    recomputes_routed_activations: bool = False
    mxfp8_parameters_year: float | None = None
    shared_projection_input_year: float | None = None
    own_eight_bit_layers: bool = False
    usual_fp8_recipe: str | None = None
    copies_by_group: bool = False
    attends_by_blocks: bool = False
    joins_experts: bool = False
    releases: Ladder | None = None


@dataclass(frozen=True)
class Stack:
    """A training stack that a job or a run record can name.

    Attributes
    ----------
    devices : the devices that it runs on, as in ``DeviceTraits.priors``.
    traits : its traits for the formulas.
    graph_by_default : a job without an execution mode compiles a graph.
    only_if_named : a backend beside the usual one of a framework, which nobody runs who does not say so.
    """

    devices: str
    traits: SoftwareTraits = SoftwareTraits()
    graph_by_default: bool = False
    only_if_named: bool = False


ROUTER_RELEASE = 2025.5
WHOLE_SENDS = 2023.25  # Megatron-Core 0.1
EXPERT_WEIGHTS = 2025.38  # core 0.12.1, of 20 May
PYTORCH_EARLY_STOP = 2023.75  # PyTorch 2.1
ACTIVE_CHUNKS = 2026.0  # PyTorch 2.10
FP32_ROUTER_EXPERTS = 32  # Megatron warns without an FP32 router from here on [megatron-0.12, arguments.py]
CORE_0_14 = 2025.77
MEGATRON_CORE = SoftwareTraits(
    units_year=2025.3,
    keeps_ends_year=2026.47,
    gathers_ahead_year=CORE_0_14,
    room_for_layers_year=2026.15,
    fp32_router_experts=FP32_ROUTER_EXPERTS,
    fp32_router_year=2025.25,
    router_keeps_norm_output_year=ROUTER_RELEASE,
    copied_router_input=True,
    sorted_map_year=2026.25,
    gate_offset_year=2025.75,
    expert_weight_year=EXPERT_WEIGHTS,
    whole_sends_year=WHOLE_SENDS,
    each_optimizer_gathers=True,
    keeps_shared_output=True,
    repeats_allocations=True,
    splits_adapters=True,
    shares_expert_adapters=True,
    norms_inside_linears=True,
    own_angles=True,
    recomputes_routed_activations=True,
    mxfp8_parameters_year=ROUTER_RELEASE,
    shared_projection_input_year=CORE_0_14,
    copies_by_group=True,
)
STACKS = {  # the first stack for a kind of devices is the default there
    "mindspeed-llm": Stack(
        "ascend",
        # From 2.1 on it runs on core 0.12, and 2.0 counts with it. Its scripts set no precision for the router.
        SoftwareTraits(
            fp32_router_experts=None,
            expert_weight_year=2025.0,
            expert_weights_fused=False,
            in_place_loss_year=2025.67,
            grouped_exchange_year=2025.25,
            loss_ends_first=True,
            rows_of_heads=True,
            rotary_tables_year=2025.42,
            each_optimizer_gathers=True,
            gathers_once_year=2025.75,
            own_eight_bit_layers=True,
            usual_fp8_recipe="mxfp8",
            joins_experts=True,
            releases=MINDSPEED_LLM,
        ),
    ),
    # PyTorch's FSDP2 on NPUs: weights are loaded in FP32 and cast when they are gathered, gradients are scattered with every
    # micro batch, layers are checkpointed by PyTorch, the loss is PyTorch's own, and Ulysses repeats keys and values for all
    # heads [mindspeed-llm, fsdp2: models/model_loader.py:121, train/trainer.py:282, ulysses_cp_attention.py:37].
    "mindspeed-llm-fsdp2": Stack(
        "ascend",
        SoftwareTraits(
            fp32_shards=True,
            early_stop_year=PYTORCH_EARLY_STOP,
            uses_transformer_engine=False,
            own_kernels=False,
            fuses_by_switch=True,
            fp32_router_experts=None,
            grouped_exchange_year=None,
        ),
        only_if_named=True,
    ),
    "mindformers": Stack(
        "ascend",
        SoftwareTraits(
            reads_whole_mask=True,
            overlaps_weight_gradients=False,
            in_place_loss_year=None,
            shards_accumulated_gradients=True,
            divides_frozen_weights=True,
            keeps_gathered_inputs=True,
            releases=MINDFORMERS,
        ),
        graph_by_default=True,
    ),
    "megatron-lm": Stack("gpu", MEGATRON_CORE),
    "nemo": Stack("gpu", MEGATRON_CORE),
    "megatron-deepspeed": Stack("gpu", SoftwareTraits(bf16_gradient_bytes=2.0)),
    "fsdp": Stack(
        "gpu",
        SoftwareTraits(
            fp32_shards=True,
            pipelines_keep_whole_stages=True,
            active_chunks_year=ACTIVE_CHUNKS,
            early_stop_year=PYTORCH_EARLY_STOP,
            uses_transformer_engine=False,
            own_kernels=False,
            fp32_router_experts=None,
            gathers_apart=True,
            views_latent_values=True,
            weighs_in_fp32=True,
            spare_expert_rows=8,
            attends_by_blocks=True,
        ),
    ),
    "maxtext": Stack("gpu", graph_by_default=True),
}


def stacks_of(family: str) -> tuple[str, ...]:
    """Names of the stacks that run on a hardware family, the default first."""
    devices = family_traits(family).priors
    return tuple(name for name, stack in STACKS.items() if stack.devices == devices)


def default_stack(family: str) -> str:
    """Stack of a hardware family if a job or a run record names none."""
    return stacks_of(family)[0]


def software_traits(stack: str, execution: str) -> SoftwareTraits:
    """Traits of a stack under ``execution``: ``eager``, or else a compiled graph. Unknown stacks have the defaults."""
    traits = STACKS[stack].traits if stack in STACKS else SoftwareTraits()
    return replace(traits, eager=execution == "eager")

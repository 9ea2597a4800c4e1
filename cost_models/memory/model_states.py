"""Bytes of weights, gradients and optimizer states on a rank, and the parameters that they belong to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.communication import reduced_gradient_bytes
from cost_models.memory.whole_tensors import Taken, WholeTensors
from cost_models.pipeline.stages import LayersByKind
from cost_models.shapes.adapters import adapter_rank_parameters, layer_rank_linears
from cost_models.shapes.fully_sharded import has_units, shards_each_layer
from cost_models.shapes.layer_keys import Floats, shard_sizes
from cost_models.shapes.optimizers import ADAM, STATE_BYTES
from cost_models.shapes.parameters import GATED_MATRICES, MTP_NORMS, PLAIN_MATRICES, layer_rank_parameters, projected_steps
from cost_models.shapes.precision import FOUR_BIT_BYTES, FOUR_BITS, Recipe
from cost_models.shapes.strategy import IntColumn, StrategyBatch, by_schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import LayerKind, ModelShape, Workload
from documents.late_methods import dataclass

# Bytes a parameter: 16 bits, FP32, two moments in FP32 [rajbhandari2020, figure 1].
WEIGHT_BYTES, MASTER_BYTES, MOMENT_BYTES = 2, 4, 8
# FP8 copies of a 16-bit weight in the layouts of its matmuls, where no recipe is stated [transformer-engine, base.py;
# float8_tensor.py].
CAST_WEIGHT_BYTES = 2
GRADIENT_BYTES = 4.0  # in an accumulation buffer in FP32
_ENDS_MEET = by_schedule(lambda rules: rules.ends_meet)
SWAP_OPTIMIZER_TIMES = 16  # swapped states come to the device in this many parts of a step [mindspeed, swap-optimizer]


@dataclass(frozen=True)
class StageParameters:
    """Parameters on a rank of each stage before sharding over data parallel, ``[stage, n]``."""

    dense: Floats
    experts: Floats
    largest_tensor: Floats  # the largest one; its gradient is computed as a whole
    largest_shard: Floats  # the largest part of one tensor in a rank's optimizer
    largest_layer: Floats  # the whole largest layer, or embedding table if it is gathered in turn, which ZeRO-3 gathers
    largest_matrix: Floats  # the largest weight of a linear layer, gate and up projection apart
    ends: Floats  # those outside of layers: embedding, head, norms and projections of MTP modules
    layers: Floats  # number of layers, those of MTP modules included

    @property
    def mean_layer(self) -> Floats:
        """Parameters of a mean layer, ``[stage, n]``."""
        return (self.dense + self.experts - self.ends) / np.maximum(self.layers, 1.0)


@dataclass(frozen=True)
class ModelStates:
    """Bytes of a rank, ``[stage, n]``, by kind, of which ``total`` stay between steps; the first step creates ``moments``.

    ``weights`` include those of a reference model. ``uneven`` is a part of ``master`` and ``moments``.
    """

    weights: Floats
    gradients: Floats
    master: Floats
    moments: Floats
    gradient_copies: Floats  # FP32 copy of the gradient shard, from the optimizer's start to the next zero_grad
    swapped: Floats  # states that live in host memory and visit the device
    on_host: Floats  # states that live in host memory and are updated there
    uneven: Floats  # bytes beyond an even division, where tensors stay whole
    working: Floats  # bytes to orthogonalise a matrix, or of copies in FP32, only while the optimizer runs

    @property
    def total(self) -> Floats:
        """Bytes that stay on the device between steps, ``[stage, n]``."""
        return self.weights + self.gradients + self.master + self.moments


def gradient_bytes(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of one gradient in the accumulation buffer, ``[n]``: as it is reduced, and what a backward writes in addition."""
    own = workload.software_traits.bf16_gradient_bytes if workload.training.precision == "bf16" else 0.0
    added: Floats = np.where(batch.has(Feature.GRAD_REDUCE_IN_BF16), 0.0, own)
    return reduced_gradient_bytes(workload, batch) + added


def moment_bytes(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of the optimizer's moments for one parameter, ``[n]``: of Adam two; of an orthogonalised matrix there are fewer."""
    types = workload.training.optimizer.state_types
    if types is not None:
        return np.full(len(batch), types.moment_bytes)
    share = workload.training.optimizer.rules.moments / ADAM.rules.moments
    return share * np.where(batch.has(Feature.BF16_MOMENTS), MOMENT_BYTES / 2.0, MOMENT_BYTES)


def adam_keeps_master(workload: Workload) -> bool:
    """Whether an Adam that takes types of states holds the master weights and reads gradients as they are accumulated.

    In 8 bits without delayed scales Megatron holds them in FP32, unless they are FP16 [megatron-0.19, optimizer_config.py].
    """
    types, training = workload.training.optimizer.state_types, workload.training
    if types is None:
        return False
    return types.main_params != "fp32" or training.fp8_recipe in (None, "delayed")


def master_bytes(workload: Workload, batch: StrategyBatch) -> Floats:
    """Bytes of the master copy of one parameter, ``[n]``; 0 where weights are in FP32.

    An Adam that takes types keeps BF16 weights' last 16 bits alone [transformer-engine, fused_adam.py].
    """
    types = workload.training.optimizer.state_types
    if workload.keeps_fp32_weights:
        return np.zeros(len(batch))
    if types is not None and adam_keeps_master(workload):
        remainder = types.main_params == "fp32" and workload.training.precision != "fp16"
        return np.full(len(batch), MASTER_BYTES / 2 if remainder else STATE_BYTES[types.main_params])
    return np.where(batch.has(Feature.REUSE_FP32_PARAM), MASTER_BYTES / 2, MASTER_BYTES)


def apart_from_embedding(num_stages: IntColumn, schedule: IntColumn, mtp_before_head: IntColumn) -> NDArray[np.bool_]:
    """Whether the MTP modules are on another rank than the first virtual stage, so that they copy its table; elementwise.

    Nothing else in a rank's memory depends on their place in the pipeline, given what the rank holds.
    """
    beside_head = _ENDS_MEET[schedule] & (mtp_before_head == 0)
    apart: NDArray[np.bool_] = (mtp_before_head < num_stages - 1) & ~beside_head
    return apart


def edge_parameters(workload: Workload, batch: StrategyBatch) -> tuple[Floats, Floats, Floats, Floats]:
    """Dense parameters of the first stage, of the last, and of the MTP modules, and expert parameters of the modules. ``[n]``

    They are not yet sharded over data parallel. First: embedding (and learned positions). Last: final norm and head. All MTP
    modules come with their embedding copy [megatron-0.12, multi_token_prediction.py] and with the final norm, which lies behind
    the last layer of the decoder [megatron-0.19, transformer_block.py]. They share it with the model if one rank
    holds both [deepseek-v3, section 3.2.3; mindspeed-llm, gpt_model.py]. Tied embeddings: a copy on both ends, one if they are
    the same rank.
    """
    model = workload.model
    h = model.hidden_size
    table = model.vocab_size * h / np.where(batch.has(Feature.REPLICATED_EMBEDDING), 1, batch.tp)
    positions = workload.training.seq_length * h if model.learned_positions else 0
    first = table + positions
    head = model.vocab_size * h / batch.tp
    last = np.where(model.tied_embeddings & (batch.pp == 1), 0.0, head) + (0 if model.mtp_num_layers else h)
    mtp = mtp_experts = np.zeros(len(batch))
    if model.mtp_num_layers:
        kind = model.kinds_of_layers()[-1]
        dense, experts = layer_rank_parameters(model.of_kind(kind), batch, moe=kind.moe, local=kind.local)
        copy = np.where(table_copies(workload, batch)[1], table, 0.0)
        mtp = model.mtp_num_layers * (dense + 2.0 * h * h / batch.tp + MTP_NORMS * h) + h + copy
        mtp_experts = model.mtp_num_layers * experts
    return first, last, mtp, mtp_experts


def table_copies(workload: Workload, batch: StrategyBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the head, and whether the MTP modules, have the embedding table on another rank than the first stage's. ``[n]``"""
    meet, model = _ENDS_MEET[batch.schedule], workload.model
    tied = model.tied_embeddings & (batch.pp > 1) & ~meet
    elsewhere = apart_from_embedding(batch.pp * batch.vpp, batch.schedule, batch.mtp_before_head)
    return tied, (model.mtp_num_layers > 0) & elsewhere


def stage_parameters(
    workload: Workload, batch: StrategyBatch, layers: LayersByKind, is_first: Floats, is_last: Floats, is_mtp: Floats
) -> StageParameters:
    """Parameters on a rank of each stage, ``[stage, n]``.

    Parameters
    ----------
    layers : ``[stage, 1]``
        Layers of each kind.
    is_first, is_last, is_mtp : ``[stage, 1]``
        Numbers of embeddings, of output heads, and of stages with the MTP modules.
    """
    model = workload.model
    last_kind = model.kinds_of_layers()[-1]
    h, none = model.hidden_size, np.zeros((len(layers[0]), len(batch)))
    dense, experts, layer, expert, matrix = none, none, none, none, none
    tensor = inside_mtp = none
    matrices = GATED_MATRICES if model.gated_linear_unit else PLAIN_MATRICES
    for kind, number in zip(model.layer_kinds(), layers, strict=True):
        its_dense, its_experts = layer_rank_parameters(model.of_kind(kind), batch, moe=kind.moe, local=kind.local)
        dense = dense + number * its_dense
        present = number + (is_mtp * model.mtp_num_layers if kind == last_kind else 0.0) > 0
        layer = np.where(present, np.maximum(layer, its_dense + (its_experts if kind.moe else 0.0)), layer)
        matrix = np.where(present, np.maximum(matrix, _largest_matrix(model.of_kind(kind), kind, batch)), matrix)
        tensor = np.where(present, np.maximum(tensor, _largest_dense(model.of_kind(kind), kind) / batch.tp), tensor)
        if kind == last_kind:
            inside_mtp = model.mtp_num_layers * its_dense
        if kind.moe:
            experts = experts + number * its_experts
            # Gate and up are one tensor: of all experts of a rank with grouped matmuls, else of each expert.
            local = (model.moe.num_experts if model.moe else 1) / batch.ep
            together = np.where(batch.has(Feature.MOE_GROUPED_GEMM), 1.0, local)
            of_layer = its_experts * (matrices - 1) / matrices / together
            expert = np.where(present, np.maximum(expert, of_layer), expert)
    first, last, mtp, mtp_experts = edge_parameters(workload, batch)
    tables = is_first + is_last + is_mtp * model.mtp_num_layers
    table = np.where(tables > 0, model.vocab_size * h / batch.tp, 0.0)
    dense = dense + is_first * first + is_last * last + is_mtp * mtp
    experts = experts + is_mtp * mtp_experts
    dense_shards, expert_shards = shard_sizes(batch)
    of_dense = np.minimum(np.maximum(tensor, table), np.where(dense_shards > 1, dense / dense_shards, np.inf))
    of_experts = np.minimum(expert, np.where(expert_shards > 1, experts / expert_shards, np.inf))
    return StageParameters(
        dense=dense,
        experts=experts,
        largest_tensor=np.maximum(np.maximum(tensor, table), expert),
        largest_shard=np.maximum(of_dense, of_experts),
        largest_layer=layer if has_units(workload) else np.maximum(layer, table),
        largest_matrix=matrix,
        ends=is_first * first + is_last * last + is_mtp * (mtp - inside_mtp),
        layers=none + sum(layers, is_mtp * model.mtp_num_layers),
    )


def _largest_matrix(view: ModelShape, kind: LayerKind, batch: StrategyBatch) -> Floats:
    """Elements of the largest weight of one layer's linear layers on a rank, gate and up projection apart. ``[n]``"""
    moe = view.moe if kind.moe and kind.has_mlp else None
    widths = [0]
    if kind.has_mlp:
        widths.append(moe.shared_expert_ffn_hidden_size if moe else view.ffn_hidden_size)
    if kind.has_mixer:
        linear, mla = view.linear_attention(local=kind.local), view.mla
        of_heads = view.num_attention_heads * (view.kv_channels if mla is None else mla.v_head_dim)
        widths.append(of_heads if linear is None else linear.value_width)
    largest: Floats = view.hidden_size * np.maximum(
        max(widths) / batch.tp, moe.expert_ffn_hidden_size / batch.etp if moe else 0.0
    )
    return largest


def _largest_dense(view: ModelShape, kind: LayerKind) -> float:
    """Elements of the largest dense weight of a layer: its MLP's first, or of a layer without an MLP its input projection.

    A state space projects queries, keys, values, gate and step by one weight [megatron-0.19, mamba_mixer.py].
    """
    h, ways = view.hidden_size, 2 if view.gated_linear_unit else 1
    if kind.has_mlp and kind.has_mixer:
        return ways * h * view.ffn_hidden_size
    if kind.has_mlp:
        shared = view.moe.shared_expert_ffn_hidden_size if view.moe else 0
        return ways * h * (shared if kind.moe else view.ffn_hidden_size)
    if (linear := view.linear_attention(local=kind.local)) is not None:
        return h * (2 * linear.query_key_width + 2 * linear.value_width + projected_steps(linear))
    gates = view.num_attention_heads if view.attention_output_gate else 0
    return h * view.kv_channels * (view.num_attention_heads + gates + 2 * view.num_query_groups)


def trained_parameters(
    workload: Workload, batch: StrategyBatch, layers: LayersByKind, is_mtp: Floats, whole: StageParameters
) -> StageParameters:
    """Parameters on a rank of each stage that have gradients and optimizer states, ``[stage, n]``: all, or those of adapters.

    Parameters
    ----------
    layers : ``[stage, 1]``
        Layers of each kind.
    is_mtp : ``[stage, 1]``
        Number of stages with the MTP modules.
    whole
        From ``stage_parameters``.
    """
    model = workload.model
    if not workload.training.task.is_frozen:
        return whole
    last_kind = model.kinds_of_layers()[-1]
    dense = experts = tensor = layer = np.zeros((len(layers[0]), len(batch)))
    for kind, number in zip(model.layer_kinds(), layers, strict=True):
        of_dense, of_experts, largest = adapter_rank_parameters(workload.of_kind(kind), batch, moe=kind.moe)
        held = number + (is_mtp * model.mtp_num_layers if kind == last_kind else 0.0)
        dense, experts = dense + held * of_dense, experts + held * of_experts
        tensor = np.where(held > 0, np.maximum(tensor, largest), tensor)
        layer = np.where(held > 0, np.maximum(layer, of_dense + of_experts), layer)
    return StageParameters(dense, experts, tensor, tensor, layer, tensor, np.zeros_like(dense), whole.layers)


def quantised_parameters(workload: Workload, batch: StrategyBatch, layers: LayersByKind, is_mtp: Floats) -> tuple[Floats, Floats]:
    """Parameters on a rank that are stored in 8 bits or in the base precision, dense and of experts, ``[stage, n]``.

    They are those of linear layers; embedding, head, norms and router keep 16 bits. None without a stated recipe or base
    precision.

    Parameters
    ----------
    layers, is_mtp : ``[stage, 1]``
        As in ``trained_parameters``.
    """
    model = workload.model
    dense = experts = np.zeros((len(layers[0]), len(batch)))
    if not workload.training.task.dequantises and workload.training.recipe is None:
        return dense, experts
    last_kind = model.kinds_of_layers()[-1]
    for kind, number in zip(model.layer_kinds(), layers, strict=True):
        held = number + (is_mtp * model.mtp_num_layers if kind == last_kind else 0.0)
        of_dense, of_experts = layer_rank_linears(model.of_kind(kind), batch, moe=kind.moe, local=kind.local)
        dense, experts = dense + held * of_dense, experts + held * of_experts
    return dense, experts


def scatters_each_micro_batch(workload: Workload, batch: StrategyBatch) -> NDArray[np.bool_]:
    """Whether gradients are scattered to their shards after every micro batch, so that no rank holds them whole. ``[n]``

    This holds for ZeRO-3, and for ZeRO-2 without a pipeline. The stages of a pipeline accumulate gradients and reduce them with
    the last micro batch, so ZeRO-2 behaves like ZeRO-1. Exceptions are stacks with
    ``SoftwareTraits.shards_accumulated_gradients`` [megatron-0.12, schedules.py; pytorch, schedules.py; mindformers-1.8,
    Parallel configuration]. In these ZeRO-1 scatters at once too where a step has one micro batch and no pipeline: each
    gradient is scattered where it is made. ``keeps_whole_stages`` accumulate under ZeRO-3 as well.
    """
    software, by_layer = workload.software, workload.software_traits.shards_accumulated_gradients
    alone = batch.pp == 1
    at_once = (batch.zero_stage == 2) & (alone | by_layer | software.sharded_accumulation)
    once_a_step = alone & (batch.num_microbatches(workload.training.global_batch_size) == 1)
    unsummed = (batch.zero_stage == 1) & by_layer & once_a_step
    scatters: NDArray[np.bool_] = shards_each_layer(workload, batch) | at_once | unsummed
    return scatters


def _beside_sixteen_bits(workload: Workload, recipe: Recipe, batch: StrategyBatch) -> Floats:
    """Bytes of a linear layer's weight in 8 bits beyond those in 16, ``[n]``; below 0 where it takes less and has no 16 bits."""
    in_eight_bits = workload.operand_copies * (1.0 + recipe.weight_scale_bytes)
    alone = (batch.zero_stage > 0) & workload.gathers_eight_bits
    return np.where(alone, in_eight_bits - WEIGHT_BYTES, in_eight_bits)


def model_states(
    workload: Workload,
    batch: StrategyBatch,
    parameters: StageParameters,
    trained: StageParameters | None = None,
    quantised: tuple[Floats, Floats] | None = None,
    whole: WholeTensors | None = None,
    rank: Taken = Taken.FULLEST,
) -> ModelStates:
    """Bytes of weights, gradients, master copies and moments on each rank, ``[stage, n]``. [B]

    Without sharding 2 + g + 12 bytes a parameter. The distributed optimizer divides the 12 by D = dp cp (experts: their own
    replicas). ZeRO-2 also divides the gradients if they are scattered at once, and ZeRO-3 divides all [rajbhandari2020, figure 1;
    megatron-0.12, dist_optimizer.md].

    FP32 parameters need no master copy: in FP32 jobs, in MindFormers, whose parallel optimizer also shards the weights
    [mindformers-1.8], and in PyTorch FSDP, which casts a shard when it gathers it, under ZeRO-2 as well
    [pytorch-fsdp, section 4.4]. DeepSpeed
    accumulates BF16 gradients in FP32 in addition to those that the backward writes [deepspeed, bf16_optimizer.py]. With 16-bit
    gradients, Megatron's optimizer works on an FP32 copy of its shard. In NVFP4 weights have
    copies in 4 bits beside them. In FP8 without the distributed optimizer, weights are
    also kept in 16 bits; tables and norms count as if they were cast, unless the recipe is stated. With it the layers' weights
    are twice 8 bits [megatron-0.12, distrib_optimizer.py], with the scales of a stated recipe. reuse-fp32-param keeps the master
    as the weights and a 16-bit remainder. States may have types of their own (``StateTypes``): such an Adam reads gradients of 16
    bits without a copy, and copies states in fewer bits to FP32 while it runs [transformer-engine, fused_adam.py]. swap-optimizer
    keeps all states on the host, and so does optimizer-cpu-offload, with a copy of the gradients in FP32 [megatron-0.19,
    hybrid_optimizer.py]. Moments in BF16 are half as large [megatron-0.19, arguments.py; deepseek-v3, section 3.3.3].

    Frozen weights have neither gradients nor optimizer states, and no copy in FP32: 2 bytes a parameter, less if they are
    quantised. Only ZeRO-3 divides them. A reference model is frozen weights of the same number.

    Where matrices are orthogonalised, a rank has the states of whole tensors.

    Parameters
    ----------
    trained
        From ``trained_parameters``. ``None``: all of ``parameters``.
    quantised
        From ``quantised_parameters``. ``None``: none.
    whole
        From ``whole_tensors``. ``None``: no tensor stays whole.
    rank
        Of those that share whole tensors.
    """
    trained = trained or parameters
    dense_shards, expert_shards = shard_sizes(batch)
    g = gradient_bytes(workload, batch)
    software, fp32 = workload.software, workload.keeps_fp32_weights
    recipe, engine = workload.training.recipe, workload.software_traits.uses_transformer_engine
    casts = workload.training.precision == "fp8" and recipe is None and engine
    four_bits = 2 * FOUR_BIT_BYTES if workload.training.precision == FOUR_BITS and engine else 0.0
    weight_bytes = np.where(casts & ((batch.zero_stage == 0) | (not workload.gathers_eight_bits)), CAST_WEIGHT_BYTES, 0.0) + (
        2 * WEIGHT_BYTES + four_bits if fp32 else WEIGHT_BYTES + four_bits
    )
    of_master = master_bytes(workload, batch)
    visits, stays = batch.has(Feature.SWAP_OPTIMIZER), batch.has(Feature.OPTIMIZER_CPU_OFFLOAD)
    on_device = np.where(visits | stays, 0.0, 1.0)
    stage = batch.zero_stage

    def divided(dense: Floats, experts: Floats, from_stage: int) -> Floats:
        of_dense = dense / np.where(stage >= from_stage, dense_shards, 1)
        return of_dense + experts / np.where(stage >= from_stage, expert_shards, 1)

    def shared(bytes_each: Floats | float, from_stage: int) -> Floats:
        return divided(trained.dense, trained.experts, from_stage) * bytes_each

    shards_from = 1 if software.fp32_parameters else 2 if workload.software_traits.fp32_shards else 3
    task, weights = workload.training.task, shared(weight_bytes, shards_from)
    if recipe is not None and workload.keeps_copies_by_recipe:
        dense, experts = (parameters.dense, parameters.experts) if quantised is None else quantised
        weights = weights + divided(dense, experts, shards_from) * _beside_sixteen_bits(workload, recipe, batch)
    if task.is_frozen:
        saved = WEIGHT_BYTES - task.stored_bytes
        weights = weights + WEIGHT_BYTES * divided(parameters.dense, parameters.experts, 3)
        weights = weights - (0.0 if quantised is None else saved * divided(*quantised, 3))
    elif task.holds_reference:
        weights = weights + WEIGHT_BYTES * divided(parameters.dense, parameters.experts, 3)

    scattered = scatters_each_micro_batch(workload, batch)
    copies = workload.software_traits.eager and not adam_keeps_master(workload)
    rules = workload.training.optimizer.rules
    of_experts = trained.experts * (rules.matrix_moments / rules.moments)
    master, moments = shared(of_master, 1), divided(trained.dense, of_experts, 1) * moment_bytes(workload, batch)
    states = ModelStates(
        weights=weights,
        gradients=np.where(scattered, shared(g, 1), shared(g, 4)),
        master=master * on_device,
        moments=moments * on_device,
        gradient_copies=np.where((g < GRADIENT_BYTES) & ~stays & copies, shared(GRADIENT_BYTES, 1), 0.0),
        swapped=np.where(visits, master + moments, 0.0),
        on_host=np.where(stays, master + moments, 0.0),
        uneven=np.zeros_like(master),
        working=_copied_bytes(workload, trained.dense / dense_shards, trained.experts / expert_shards),
    )
    return states if whole is None else _of_whole_tensors(workload, states, of_master, whole, rank)


def _copied_bytes(workload: Workload, dense: Floats, experts: Floats) -> Floats:
    """Bytes of FP32 copies of states in fewer bits, of the larger of two optimizers: experts have their own. ``[stage, n]``"""
    types = workload.training.optimizer.state_types
    return np.maximum(dense, experts) * (0.0 if types is None else GRADIENT_BYTES * len(types.copied))


def _of_whole_tensors(
    workload: Workload, states: ModelStates, master_bytes: Floats, whole: WholeTensors, rank: Taken
) -> ModelStates:
    """The states where a rank has those of whole tensors, ``[stage, n]``; ``states`` are divided evenly."""
    optimizer, owned = workload.training.optimizer, whole.owned(rank)
    master, moments = master_bytes * owned, whole.moment_bytes(optimizer.rules, rank)
    return replace(
        states,
        master=master,
        moments=moments,
        gradient_copies=np.where(states.gradient_copies > 0.0, GRADIENT_BYTES * owned, 0.0),
        uneven=master + moments - states.master - whole.moment_bytes(optimizer.rules, Taken.MEAN),
        working=whole.working_bytes(optimizer.tp_mode),
    )

"""Writes configurations of MindFormers 1.8 on MindSpore, for models of the mcore branch (``use_legacy: False``).

An argument is ``path=value`` as in ``run_mindformer.py --options``, with the value in JSON [mindformers-1.8, template.py;
mindformers-1.8, transformer_config_utils.py; mindformers-1.8, training_graph/transformer/utils.py].
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature, Scope, acting_on
from cost_models.shapes.tensors import TensorPlan
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.environment import hccl, start_note
from frameworks.framework import LaunchArguments
from frameworks.launch_text import PLACEHOLDER
from frameworks.mindformers import adapters, cells, fine_tuning
from frameworks.mindformers.balance import balance_notes, balance_options
from frameworks.mindformers.constants import constants_written, unstated_note
from frameworks.mindformers.models import class_of, likest
from frameworks.mindformers.nearest import nearest
from frameworks.mindformers.selection import Counts, counts_of_plan
from frameworks.mindformers.table import MODEL, RELEASE, RING_ATTENTION, TABLE
from frameworks.options import Options, as_given
from frameworks.rule import layout_of, num_microbatches
from frameworks.table import settled

KERNELS = Feature.FLASH_ATTENTION | Feature.FUSED_NORM | Feature.FUSED_SWIGLU | Feature.FUSED_ROPE
# Defaults of a class with experts, removed for a model without.
_NO_EXPERTS: Options = {"n_routed_experts": None, **dict.fromkeys(("n_shared_experts", "first_k_dense_replace"), 0)} | {
    "n_group": 0, "topk_group": 0,
}  # fmt: skip
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Options, environment and notes of the nearest strategy that MindFormers supports."""
    s, replaced = nearest(workload, planned)
    options = {
        **_parallelism(workload, s),
        **_model(workload, s),
        **_experts(workload, s),
        **balance_options(workload),
        **TABLE.arguments_of(KERNELS),
        **_recompute(workload, s),
        **_optimizer(s),
        **_run(workload, s),
    }
    written = settled(RELEASE, options, s.features, as_given)
    arguments = tuple(f"{name}={json.dumps(value)}" for name, value in written.items())
    return LaunchArguments(s, arguments, _environment(workload, s), replaced + _notes(workload, planned, s))


def _environment(workload: Workload, s: ParallelStrategy) -> dict[str, str]:
    """Environment variables on MindSpore [cann, HCCL_BUFFSIZE; mindformers-1.5, fine_grained_activations_swap.md]."""
    inlined = {"ENABLE_LAZY_INLINE_NO_PIPELINE": "1"} if Feature.SWAP_ATTENTION in s.features and s.pp == 1 else {}
    return {**hccl(workload), **inlined}


def _valued(options: Options) -> Options:
    """The options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def _in_model(options: Options) -> Options:
    return _valued({f"{MODEL}.{name}": value for name, value in options.items()})


def _parallelism(workload: Workload, s: ParallelStrategy) -> Options:
    names = TABLE.columns
    layout = layout_of(workload, s)
    each = workload.model.num_layers // (s.pp * s.vpp)
    offset = cells.by_rank([[layers - each for layers in row] for row in layout], s.schedule)
    options: Options = {
        names["dp"]: s.dp,
        names["tp"]: s.tp,
        names["sequence_parallel"]: s.sequence_parallel,
        names["pp"]: s.pp,
        "parallel_config.micro_batch_num": num_microbatches(workload, s) if s.pp > 1 else 1,
        names["cp"]: s.cp,
        names["cp_algo"]: TABLE.cp_algos.get(s.cp_algo) if s.cp > 1 else None,
        RING_ATTENTION: s.cp_algo is CpAlgo.RING if s.cp > 1 else None,
        names["ulysses_degree"]: s.cp if s.cp > 1 and s.cp_algo is CpAlgo.ULYSSES else None,
        names["ep"]: s.ep if workload.model.moe else None,
        "parallel_config.vocab_emb_dp": False,  # these layers split the table with any value
        **TABLE.arguments_of(Feature.FINE_GRAIN_INTERLEAVE),
        names["layer_layout"]: offset if s.vpp > 1 else offset[0],
        names["vpp"]: s.vpp,
    }
    if s.pp > 1:
        options["parallel.pipeline_config.pipeline_interleave"] = s.vpp > 1
        options[names["schedule"]] = TABLE.schedules.get(s.schedule, "1f1b")
    return _valued(options)


def _halves(s: ParallelStrategy) -> int:
    return 2 if Feature.FINE_GRAIN_INTERLEAVE in s.features else 1


def _model(workload: Workload, s: ParallelStrategy) -> Options:
    model, mla = workload.model, workload.model.mla
    trained_by = class_of(model)
    options: Options = {
        # Without a class the framework must refuse the file: it would train another model.
        "model_type": trained_by.model_type if trained_by else model.constants.model_type or PLACEHOLDER,
        "architectures": [trained_by.architecture] if trained_by else None,
        "num_hidden_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.ffn_hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.num_query_groups,
        "head_dim": model.kv_channels if mla is None else None,
        "vocab_size": model.vocab_size,
        "seq_length": workload.training.seq_length,
        "max_position_embeddings": model.constants.max_position_embeddings,
        **constants_written(model, likest(model)),
        "normalization": cells.normalization(model),
        "hidden_act": cells.hidden_act(model, s.features),
        "gated_linear_unit": model.gated_linear_unit,
        "add_bias_linear": not model.gated_linear_unit and model.moe is None,
        "attention_bias": model.attention_bias,
        "qk_layernorm": model.qk_layernorm or mla is not None,
        "tie_word_embeddings": model.tied_embeddings,
        "num_nextn_predict_layers": model.mtp_num_layers if model.mtp_num_layers or mla else None,
        "multi_latent_attention": mla is not None,
    }
    if mla is not None:
        options |= {
            "kv_lora_rank": mla.kv_lora_rank,
            "qk_nope_head_dim": mla.qk_nope_head_dim,
            "qk_rope_head_dim": mla.qk_rope_head_dim,
            "v_head_dim": mla.v_head_dim,
        }
    dtype = DTYPES.get(workload.training.precision, "bfloat16")
    options |= {
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "compute_dtype": dtype,
        "fp32_residual_connection": workload.software.fp32_residual == "layer" or None,
        "params_dtype": "float32" if workload.software.fp32_parameters else dtype,
    }
    # The class has a default for the rank, which null takes away.
    return _in_model(options) | ({f"{MODEL}.q_lora_rank": mla.q_lora_rank or None} if mla else {})


def _experts(workload: Workload, s: ParallelStrategy) -> Options:
    moe, trained_by = workload.model.moe, likest(workload.model)
    if moe is None:
        return {f"{MODEL}.{key}": value for key, value in _NO_EXPERTS.items()} if trained_by.experts else {}
    grouped = moe.num_groups > 1 or trained_by.latent_attention
    options = {
        trained_by.experts or "num_experts": moe.num_experts,
        "num_experts_per_tok": moe.top_k,
        "moe_intermediate_size": moe.expert_ffn_hidden_size,
        "n_shared_experts": moe.num_shared_experts,
        "moe_shared_expert_intermediate_size": moe.shared_expert_ffn_hidden_size or None,
        "n_group": moe.num_groups if grouped else None,
        "topk_group": moe.group_topk if grouped else None,
        **(_dense_layers(workload) if trained_by.dense_layers else {}),
        "moe_router_pre_softmax": True if moe.top_k == 1 else None,
        "moe_token_dispatcher_type": TABLE.dispatchers.get(s.dispatcher, "alltoall"),
    }
    switches = TABLE.arguments_of(acting_on(Scope.EXPERTS))
    devices = workload.cluster.profile.devices_per_node if s.dispatcher is Dispatcher.HIERARCHICAL else None
    return {
        **_in_model(options),
        **switches,
        **_in_model({"npu_nums_per_device": devices}),
        "parallel.enable_alltoall": s.ep > 1,
    }


def _dense_layers(workload: Workload) -> Options:
    """The number of leading dense layers, or a list of the MoE layers if that is not enough."""
    moe = workload.model.moe
    assert moe is not None
    if moe.moe_layer_freq == 1:
        return {"first_k_dense_replace": moe.num_leading_dense_layers, "moe_layer_freq": 1}
    return {"first_k_dense_replace": 0, "moe_layer_freq": [int(is_moe) for is_moe in workload.model.moe_layers()]}


def _recompute(workload: Workload, s: ParallelStrategy) -> Options:
    """Recomputed layers by stage, or by virtual stage if the list has a row for each [mindformers-1.5, Offset_Recompute.md].

    With swap the same list has layer numbers instead [mindformers-1.8, training_graph/transformer/utils.py].
    """
    if s.tensor_plan is not None:
        return _selected(workload, s, s.tensor_plan)
    patterns = cells.recompute_patterns(workload.model, s)
    numbered = Feature.SWAP_ATTENTION in s.features  # then every pattern has the numbers of its layers [check_rules.py]
    where = list(range(workload.model.num_layers)) if numbered else True
    return {
        "recompute_config.recompute": _recomputed_layers(workload, s),
        "recompute_config.select_recompute": dict.fromkeys(patterns, where) or False,
    }


def _selected(workload: Workload, s: ParallelStrategy, plan: TensorPlan) -> Options:
    """Recompute by operator, each with its number of layers of every stage, or of every virtual stage."""
    layout = layout_of(workload, s)
    modules, gathered, whole = counts_of_plan(plan, layout)

    def rows(counts: Counts) -> Any:
        return (cells.by_rank(counts, s.schedule) if s.vpp > 1 else list(counts[0])) if any(map(any, counts)) else False

    selected: dict[str, Any] = {}
    for module, counts in modules.items():
        names = cells.recompute_patterns(workload.model, replace(s, recompute_modules=module))
        selected |= dict.fromkeys(names, rows(counts))
    return {
        "recompute_config.recompute": rows(whole),
        "recompute_config.select_recompute": selected or False,
        **({"recompute_config.select_comm_recompute": {cells.GATHERED: rows(gathered)}} if any(map(any, gathered)) else {}),
    }


def _recomputed_layers(workload: Workload, s: ParallelStrategy) -> bool | list[int] | list[list[int]]:
    if s.recompute is not Recompute.FULL:
        return False
    if s.recompute_layers_per_stage is None and s.recompute_method is RecomputeMethod.UNIFORM:
        return True
    plan, layout = s.recompute_layers_per_stage, layout_of(workload, s)
    swap = Feature.SWAP_ATTENTION in s.features
    if plan is not None and not swap:
        return list(plan)
    if plan is None:
        counts = [[min(s.recompute_num_layers, present) for present in row] for row in layout]
    else:
        counts = cells.spread(plan, layout)
    if swap:
        return cells.numbers_of_layers(counts, layout)
    return cells.by_rank(counts, s.schedule) if s.vpp > 1 else counts[0]


def _optimizer(s: ParallelStrategy) -> Options:
    options: Options = {"parallel.enable_parallel_optimizer": s.zero_stage > 0}
    if s.zero_stage:
        options["parallel.parallel_optimizer_config.gradient_accumulation_shard"] = s.zero_stage > 1
        if s.optimizer_shard_size:
            options[TABLE.columns["optimizer_shard_size"]] = s.optimizer_shard_size
    return options | {"optimizer.type": "AdamW"} | TABLE.arguments_of(Feature.SWAP_OPTIMIZER | Feature.SWAP_ATTENTION)


def _run(workload: Workload, s: ParallelStrategy) -> Options:
    return {
        "use_legacy": False,
        "use_parallel": True,
        **fine_tuning.options(workload),
        TABLE.columns["micro_batch_size"]: s.micro_batch_size // _halves(s),
        "runner_config.gradient_accumulation_steps": num_microbatches(workload, s) if s.pp == 1 else 1,
        "parallel.parallel_mode": 1,
        "parallel.full_batch": False,
        "parallel.dataset_strategy": _column_strategies(workload, s.dp),
        "context.mode": 0,
        "context.device_target": "Ascend",
        "context.max_device_memory": f"{_pool_gib(workload)}GB",
        **({"context.memory_optimize_level": "O0"} if Feature.SWAP_ATTENTION in s.features else {}),
    }


def _column_strategies(workload: Workload, dp: int) -> list[list[int]]:
    """How each column of the data is cut: two of a fine-tune; else four of tokens, then the attention mask."""
    if fine_tuning.is_fine_tune(workload):
        return [[dp, 1]] * len(fine_tuning.COLUMNS)
    return [*[[dp, 1]] * 4, [dp, 1, 1, 1]]


def _pool_gib(workload: Workload) -> int:
    """Size of MindSpore's pool in GiB; the runtime's own context is outside it."""
    profile = workload.cluster.profile
    return max(int((profile.usable_hbm_bytes - profile.context_bytes) // 2**30), 1)


def _notes(workload: Workload, planned: ParallelStrategy, s: ParallelStrategy) -> tuple[str, ...]:
    notes = [start_note(workload, "scripts/msrun_launcher.sh"), *unstated_note(workload.model, likest(workload.model))]
    notes += [*balance_notes(workload), *fine_tuning.notes(workload), *adapters.notes(workload, s)]
    if Feature.SWAP_ATTENTION in s.features and workload.model.moe is not None:
        notes.append(Sentence("MindFormers documents swap for dense models; with experts, try it on a few layers first."))
    return tuple(notes)

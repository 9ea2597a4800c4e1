"""The start of ``pretrain_gpt.py``, Megatron-LM's and, with its patches applied, MindSpeed-LLM's.

parse, validate, globals, groups, config, container: as in the release, for rank 0 of all ranks. layers: the layers of all
pipeline stages add up to the model. build: ``model_provider`` for the first, a middle and the last stage, on stand-ins.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

from scripts.conformance.stages import RefusedError, Stages, plain

NORMS = ("q_layernorm", "k_layernorm", "kv_layernorm", "linear_kv_up_proj")
GIVEN_TO_THE_MODEL = (
    *("vocab_size", "max_sequence_length", "rotary_base", "rotary_percent", "rope_scaling", "position_embedding_type"),
    "share_embeddings_and_output_weights",
)
ENOUGH_ROWS = 131072  # a tokenizer would give the number, but is not read


def run(question: dict[str, Any], stages: Stages, entry: Any, defaults: dict[str, Any]) -> None:
    """All stages of one file."""
    initialize = importlib.import_module("megatron.training.initialize")
    arguments = importlib.import_module("megatron.training.arguments")
    first = initialize if hasattr(initialize, "parse_args") else arguments  # the start takes both from here
    stages.enter("parse")
    args = first.parse_args(None, False)
    stages.keep("arguments", vars(args))
    stages.enter("validate")
    args = first.validate_args(args, defaults) or args
    stages.keep("arguments", vars(args))
    stages.enter("globals")
    importlib.import_module("megatron.training.global_vars").set_global_variables(args, build_tokenizer=False)
    _pad_vocabulary(question, stages, args)
    calculator = importlib.import_module("megatron.core.num_microbatches_calculator")
    stages.found["num_microbatches"] = calculator.get_num_microbatches()
    stages.enter("groups")
    hooks = [
        each for each in inspect.signature(initialize._initialize_distributed).parameters.values() if each.default is each.empty
    ]
    initialize._initialize_distributed(*[None] * len(hooks))
    stages.enter("config")
    config = arguments.core_transformer_config_from_args(args)
    stages.keep("config", vars(config))
    model_config = _container(stages, args, entry)
    stages.enter("layers")
    if getattr(args, "hybrid_layer_pattern", None):
        _select_layers(stages, args)
        stages.found["build"] = "not asked: state spaces need kernels"
        return
    _count_layers(stages, args, config)
    _build(stages, args, entry, model_config)


def _container(stages: Stages, args: Any, entry: Any) -> Any:
    """The configurations that newer releases make from all arguments; the model's configuration, if there is one."""
    if not hasattr(entry, "pretrain_cfg_container_from_args"):
        return None
    stages.enter("container")
    makers = (getattr(entry, name, None) for name in ("gpt_config_from_args", "hybrid_config_from_args"))
    model_config = next((make(args) for make in makers if make), None)
    entry.pretrain_cfg_container_from_args(args, *([] if model_config is None else [model_config]))
    return model_config


def _pad_vocabulary(question: dict[str, Any], stages: Stages, args: Any) -> None:
    """Rows of the embedding: as given, or the padded vocabulary of the model if a tokenizer would decide."""
    if getattr(args, "padded_vocab_size", None) is None and question.get("vocab_size"):
        for name in ("megatron.training.tokenizer.tokenizer", "megatron.core.tokenizers.utils.build_tokenizer",
                     "megatron.core.tokenizers.text.utils.build_tokenizer"):  # fmt: skip
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            pad = getattr(module, "_vocab_size_with_padding", None) or getattr(module, "vocab_size_with_padding", None)
            if pad is not None:
                args.padded_vocab_size = pad(question["vocab_size"], args)
                break
    stages.found["arguments"]["padded_vocab_size"] = plain(getattr(args, "padded_vocab_size", None))


def _count_layers(stages: Stages, args: Any, config: Any) -> None:
    state = importlib.import_module("megatron.core.parallel_state")
    block = importlib.import_module("megatron.core.transformer.transformer_block")
    pp, vpp = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size or 1
    asks = inspect.signature(block.get_num_layers_to_build).parameters
    counts = []
    for rank in range(pp):
        state.set_pipeline_model_parallel_rank(rank)
        for chunk in range(vpp):
            if args.virtual_pipeline_model_parallel_size:
                state.set_virtual_pipeline_model_parallel_rank(chunk)
            stage = {"vp_stage": chunk if vpp > 1 else None, "pp_rank": rank}
            counts.append(block.get_num_layers_to_build(config, **{name: stage[name] for name in stage if name in asks}))
    stages.found["layers"] = counts
    if sum(counts) * (2 if _is_dualpipev(args) else 1) != args.num_layers:
        raise RefusedError(f"{pp} stages of {vpp} chunks would build {sum(counts)} layers of {args.num_layers}: {counts}")


def _select_layers(stages: Stages, args: Any) -> None:
    """Symbols of the layers of each stage, as the release cuts them."""
    state = importlib.import_module("megatron.core.parallel_state")
    allocation = importlib.import_module("megatron.core.models.hybrid.hybrid_layer_allocation")
    pp, vpp = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
    main = allocation.parse_hybrid_pattern(args.hybrid_layer_pattern).main_pattern
    found: dict[tuple[int, int], list[str]] = {}
    for rank in range(pp):
        state.set_pipeline_model_parallel_rank(rank)
        group = state.get_pipeline_model_parallel_group()
        group.acts_as = rank
        for chunk in range(vpp or 1):
            symbols, offset = allocation.select_pipeline_segment(main, group, chunk if vpp else None)
            found[chunk, rank] = symbols
            before = sum(len(each) for place, each in found.items() if place < (chunk, rank))
            if not vpp and offset != before:
                raise RefusedError(f"stage {rank} starts at layer {offset}, and {before} are before it")
    stages.found["layers"] = [len(found[chunk, rank]) for rank in range(pp) for chunk in range(vpp or 1)]
    built = "".join("".join(found[place]) for place in sorted(found))
    stages.found["arguments"]["hybrid_layers"] = built
    if len(built) != args.num_layers:
        raise RefusedError(f"{pp} stages would build {built} of {args.num_layers} layers")


def _is_dualpipev(args: Any) -> bool:
    """Whether a rank builds two chunks (DualPipeV), of which one is requested."""
    return getattr(args, "schedules_method", None) == "dualpipev"


def _build(stages: Stages, args: Any, entry: Any, model_config: Any) -> None:
    if getattr(args, "padded_vocab_size", None) is None:
        args.padded_vocab_size = ENOUGH_ROWS
    holder, provide = _builder(entry, model_config)
    real = holder.GPTModel

    def recorded(*values: Any, **keywords: Any) -> Any:
        described = _described(keywords)
        built = stages.found.setdefault("built", described)
        built["attention_norms"] |= described["attention_norms"]  # a stage may hold layers of one kind
        return real(*values, **keywords)

    holder.GPTModel = recorded
    state = importlib.import_module("megatron.core.parallel_state")
    pp, vpp = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
    try:
        seed = importlib.import_module("megatron.core.tensor_parallel").model_parallel_cuda_manual_seed
        asked = {*inspect.signature(seed).parameters} & {*vars(args)} - {"seed"}
        seed(args.seed, **{name: getattr(args, name) for name in asked})
        if _is_dualpipev(args):
            args.dualpipev_first_chunk = True
        for rank in sorted({0, pp // 2, pp - 1}):
            state.set_pipeline_model_parallel_rank(rank)
            state.get_pipeline_model_parallel_group().acts_as = rank
            chunk = vpp - 1 if vpp and rank == pp - 1 else 0  # the head is in the last stage's last chunk
            if vpp:
                state.set_virtual_pipeline_model_parallel_rank(chunk)
            provide(pre_process=rank == 0, post_process=rank == pp - 1, vp_stage=chunk if vpp else None)
        stages.found["build"] = "done"
    except (AssertionError, ValueError, RuntimeError):
        stages.enter("build")
        raise
    except BaseException as error:
        # A stand-in may be the reason, so this does not count as a refusal.
        stages.found["build"] = f"{type(error).__name__}: {error}"
        stages.found["build_traceback"] = traceback.format_exc()[-3000:]


def _builder(entry: Any, model_config: Any) -> tuple[Any, Callable[..., Any]]:
    """The module that names ``GPTModel``, and the release's function that builds one stage of it."""
    if model_config is not None:
        models = importlib.import_module("megatron.training.models.gpt")
        groups = importlib.import_module("megatron.core.process_groups_config").ProcessGroupCollection.use_mpu_process_groups()
        return models, functools.partial(models.GPTModelBuilder(model_config).build_model, groups)
    builders = sys.modules.get("gpt_builders")
    holder: Any = builders or entry
    provide = functools.partial(entry.model_provider, builders.gpt_builder) if builders else entry.model_provider
    if "vp_stage" in inspect.signature(entry.model_provider).parameters:
        return holder, provide
    return holder, lambda vp_stage, **given: provide(**given)


def _described(keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments that the entry point gives to its model: numbers, and whether attention normalizes queries and keys."""
    spec = keywords.get("transformer_layer_spec")
    layers = getattr(spec, "layer_specs", None) or [spec]
    attention = [layer.submodules.self_attention.submodules for layer in layers]  # a recurrence has none
    found = [getattr(each, name, None) for each in attention for name in NORMS]
    norms = [getattr(module, "__name__", str(module)) for module in found if module is not None]
    return {
        "attention_norms": any("Norm" in name for name in norms),
        **{name: plain(keywords.get(name)) for name in GIVEN_TO_THE_MODEL},
    }

"""The start of ``pretrain_gpt.py``, Megatron-LM's and, with its patches applied, MindSpeed-LLM's.

parse, validate, globals, groups, config: as ``initialize_megatron`` does them, rank 0 of all ranks. layers: what all pipeline
stages would build adds up to the model. build: ``model_provider`` for the first, a middle and the last stage, on stand-ins.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import traceback
from typing import Any

from scripts.conformance.stages import RefusedError, Stages, plain

NORMS = ("q_layernorm", "k_layernorm", "kv_layernorm", "linear_kv_up_proj")
GIVEN_TO_THE_MODEL = (
    *("vocab_size", "max_sequence_length", "rotary_base", "rotary_percent", "rope_scaling", "position_embedding_type"),
    "share_embeddings_and_output_weights",
)
ENOUGH_ROWS = 131072  # where the tokenizer, which is not read, would say how many


def run(question: dict[str, Any], stages: Stages, entry: Any, defaults: dict[str, Any]) -> None:
    """All stages of one file."""
    initialize = importlib.import_module("megatron.training.initialize")
    arguments = importlib.import_module("megatron.training.arguments")
    stages.enter("parse")
    args = initialize.parse_args(None, False)
    stages.keep("arguments", vars(args))
    stages.enter("validate")
    args = initialize.validate_args(args, defaults) or args
    stages.keep("arguments", vars(args))
    stages.enter("globals")
    initialize.set_global_variables(args, build_tokenizer=False)
    _pad_vocabulary(question, stages, args)
    calculator = importlib.import_module("megatron.core.num_microbatches_calculator")
    stages.found["num_microbatches"] = calculator.get_num_microbatches()
    stages.enter("groups")
    required = [p for p in inspect.signature(initialize._initialize_distributed).parameters.values()]
    initialize._initialize_distributed(*[None] * min(len(required), 3))
    stages.enter("config")
    config = arguments.core_transformer_config_from_args(args)
    stages.keep("config", vars(config))
    stages.enter("layers")
    _count_layers(stages, args, config)
    _build(stages, args, entry)


def _pad_vocabulary(question: dict[str, Any], stages: Stages, args: Any) -> None:
    """Rows of the embedding: as given, or as the model's vocabulary is padded where a tokenizer would decide."""
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


def _is_dualpipev(args: Any) -> bool:
    """Its ranks build two chunks, of which one is asked for."""
    return getattr(args, "schedules_method", None) == "dualpipev"


def _build(stages: Stages, args: Any, entry: Any) -> None:
    builder = sys.modules.get("gpt_builders")
    holder = builder if builder is not None else entry
    real = holder.GPTModel

    def recorded(*values: Any, **keywords: Any) -> Any:
        stages.found.setdefault("built", _described(keywords))
        return real(*values, **keywords)

    holder.GPTModel = recorded
    state = importlib.import_module("megatron.core.parallel_state")
    provide = entry.model_provider if builder is None else functools.partial(entry.model_provider, builder.gpt_builder)
    takes_stage = "vp_stage" in inspect.signature(entry.model_provider).parameters
    pp, vpp = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
    try:
        importlib.import_module("megatron.core.tensor_parallel").model_parallel_cuda_manual_seed(args.seed)
        args.padded_vocab_size = getattr(args, "padded_vocab_size", None) or ENOUGH_ROWS
        if _is_dualpipev(args):
            args.dualpipev_first_chunk = True
        for rank in sorted({0, pp // 2, pp - 1}):
            state.set_pipeline_model_parallel_rank(rank)
            chunk = vpp - 1 if vpp and rank == pp - 1 else 0  # the head is in the last stage's last chunk
            if vpp:
                state.set_virtual_pipeline_model_parallel_rank(chunk)
            given = {"vp_stage": chunk if vpp else None} if takes_stage else {}
            provide(pre_process=rank == 0, post_process=rank == pp - 1, **given)
        stages.found["build"] = "done"
    except (AssertionError, ValueError, RuntimeError):
        stages.enter("build")
        raise
    except BaseException as error:
        # A stand-in may be the reason, so it refuses nothing.
        stages.found["build"] = f"{type(error).__name__}: {error}"
        stages.found["build_traceback"] = traceback.format_exc()[-3000:]


def _described(keywords: dict[str, Any]) -> dict[str, Any]:
    """What the entry point gives to its model: numbers, and whether attention has norms of queries and keys."""
    spec = keywords.get("transformer_layer_spec")
    layers = getattr(spec, "layer_specs", None) or [spec]
    attention = layers[0].submodules.self_attention.submodules
    norms = [getattr(module, "__name__", str(module)) for name in NORMS if (module := getattr(attention, name, None)) is not None]
    return {
        "attention_norms": any("Norm" in name for name in norms),
        **{name: plain(keywords.get(name)) for name in GIVEN_TO_THE_MODEL},
    }

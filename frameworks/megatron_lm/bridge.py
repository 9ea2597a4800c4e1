"""Adapters on Megatron-Core by Megatron-Bridge: arguments of Megatron-LM as fields of its ``ConfigContainer``, and back.

A field is ``path=value`` with the value in JSON [megatron-bridge-0.6, config.py; megatron-0.19, transformer_config.py]. The
constants of a model have none here: ``AutoBridge`` reads them from the Hugging Face model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.model_facts import as_words
from frameworks.options import Options, OptionValues, options_of
from frameworks.release import Kind, Release

REPOSITORY, COMMIT = "NVIDIA-NeMo/Megatron-Bridge", "51885cf1"  # v0.6.0
LAYERS = "moe-layer-freq"  # which layers have experts: an expression there, a list here
DIM, ALPHA, MODULES = "peft.dim", "peft.alpha", "peft.target_modules"
VIRTUAL, PACKING = "model.virtual_pipeline_model_parallel_size", "dataset.enable_offline_packing"


def _same(section: str, *arguments: str) -> dict[str, str]:
    """Fields that have the name of the argument."""
    return {name: f"{section}.{name.replace('-', '_')}" for name in arguments}


# What the plan sets.
SET: Mapping[str, str] = {
    **_same("model", "tensor-model-parallel-size", "sequence-parallel", "pipeline-model-parallel-size"),
    "num-virtual-stages-per-pipeline-rank": VIRTUAL,
    "microbatch-group-size-per-virtual-pipeline-stage": "model.microbatch_group_size_per_vp_stage",
    "decoder-first-pipeline-num-layers": "model.num_layers_in_first_pipeline_stage",
    "decoder-last-pipeline-num-layers": "model.num_layers_in_last_pipeline_stage",
    **_same("model", "pipeline-model-parallel-layout", "context-parallel-size", "cp-comm-type"),
    **_same("model", "hierarchical-context-parallel-sizes", "expert-model-parallel-size", "expert-tensor-parallel-size"),
    **_same("model", "moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-router-dtype", "moe-grouped-gemm"),
    **_same("model", "moe-permute-fusion", "moe-shared-expert-overlap", "moe-pad-expert-input-to-capacity"),
    **_same("model", "moe-expert-capacity-factor"),
    **_same("model", "moe-router-load-balancing-type", "moe-router-force-load-balancing"),
    **_same("model", "recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules"),
    **_same("model", "transformer-impl", "attention-backend", "attention-dropout", "hidden-dropout", "seq-length"),
    **_same("model", "mtp-num-layers", "make-vocab-size-divisible-by"),
    **_same("train", "micro-batch-size", "global-batch-size"),
    **_same("ddp", "use-distributed-optimizer", "num-distributed-optimizer-instances"),
    **_same("ddp", "overlap-grad-reduce", "overlap-param-gather"),
    **_same("optimizer", "optimizer", "use-precision-aware-optimizer", "exp-avg-dtype", "exp-avg-sq-dtype"),
    **_same("mixed_precision", "bf16", "fp16", "fp8-param-gather", "fp8-recipe", "reuse-grad-buf-for-mxfp8-param-ag"),
    "fp8-format": "mixed_precision.fp8",
}
# What the plan was priced for, and the Hugging Face model must be.
FACTS: Mapping[str, str] = {
    **_same("model", "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups", "kv-channels"),
    **_same("model", "vocab-size", "add-qkv-bias", "qk-layernorm", "multi-latent-attention", "q-lora-rank", "kv-lora-rank"),
    **_same("model", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim", "moe-layer-freq", "moe-ffn-hidden-size"),
    **_same("model", "moe-router-topk", "moe-shared-expert-intermediate-size"),
    "num-experts": "model.num_moe_experts",
    "swiglu": "model.gated_linear_unit",
}
# Bare arguments that switch off what the field switches on.
NEGATED: Mapping[str, str] = {
    "no-overlap-p2p-communication": "model.overlap_p2p_comm",
    "no-bias-swiglu-fusion": "model.bias_activation_fusion",
    "no-rope-fusion": "model.apply_rope_fusion",
    "grad-reduce-in-bf16": "mixed_precision.grad_reduce_in_fp32",
    "untie-embeddings-and-output-weights": "model.share_embeddings_and_output_weights",
}
PATHS = {**SET, **FACTS, **NEGATED}
FACT_PATHS = frozenset({*FACTS.values(), NEGATED["untie-embeddings-and-output-weights"]})
# Fields that models of Megatron-Bridge may have otherwise, as pretrain_gpt.py has them without an argument; ``None``: nothing.
UNLESS_GIVEN: Options = {
    "model.recompute_granularity": None,
    "model.mtp_num_layers": None,
    "model.cross_entropy_loss_fusion": False,
    "model.bias_dropout_fusion": True,
    "model.deallocate_pipeline_outputs": True,
}
_OF_EXPERTS = ("moe-", "expert-")  # how their arguments begin
_TYPES = {"bf16": "torch.bfloat16"}  # of moments
_LISTS = ("recompute-modules", "hierarchical-context-parallel-sizes")


class Fields(NamedTuple):
    """A configuration read back: arguments of Megatron-LM, the task, and whether samples are packed."""

    arguments: tuple[str, ...]
    task: TrainingTask
    packs: bool


def packs_samples(workload: Workload) -> bool:
    """Whether a sequence holds several samples, and attention stays within each."""
    return workload.training.mean_squared_length_fraction < 1.0


def fields_of(release: Release, written: Mapping[str, Any], workload: Workload, s: ParallelStrategy) -> tuple[str, ...]:
    """The fields of settled arguments of Megatron-LM, each as ``path=value``."""
    task = workload.training.task
    assert task.adapters is not None
    fields: Options = {}
    for name, path in PATHS.items():
        if name in written:
            fields[path] = name not in NEGATED and _value(release, name, as_words(written[name]))
        elif release.arguments[name].kind is Kind.SWITCH and (workload.model.moe or not name.startswith(_OF_EXPERTS)):
            fields[path] = name in NEGATED
    fields = fields | {path: value for path, value in UNLESS_GIVEN.items() if path not in fields}
    fields[FACTS["swiglu"]] = workload.model.gated_linear_unit  # or another gated activation
    if workload.model.moe is not None:
        fields.setdefault("model.moe_router_dtype", None)
        fields[FACTS[LAYERS]] = [int(is_moe) for is_moe in workload.model.moe_layers()]
    if s.vpp > 1:
        fields[VIRTUAL] = s.vpp
    overlaps = fields["model.overlap_p2p_comm"] and s.vpp > 1  # else the schedule refuses it [megatron-0.19, schedules.py]
    fields |= {"model.overlap_p2p_comm": overlaps, "model.batch_p2p_comm": not overlaps}
    fields["optimizer.use_distributed_optimizer"] = fields["ddp.use_distributed_optimizer"]
    fields["ddp.align_param_gather"] = fields["ddp.overlap_param_gather"] and s.vpp > 1  # as pretrain_gpt.py
    if "fp8-format" in written:
        fields.setdefault("mixed_precision.fp8_recipe", "delayed")  # as Megatron-LM unless it is told
    fields |= {"dataset.seq_length": workload.training.seq_length, PACKING: packs_samples(workload)}
    fields |= {DIM: task.adapters.rank, ALPHA: _whole(task.adapters.alpha), MODULES: list(task.adapters.modules)}
    sections = list(dict.fromkeys(path.partition(".")[0] for path in fields))
    paths = sorted(fields, key=lambda path: (path in FACT_PATHS, sections.index(path.partition(".")[0])))
    return tuple(f"{path}={json.dumps(fields[path])}" for path in paths)


def are_fields(arguments: Sequence[str]) -> bool:
    """Whether arguments are fields of Megatron-Bridge, and not words for ``pretrain_gpt.py``."""
    return any(argument.startswith(f"{DIM}=") for argument in arguments)


def read_fields(release: Release, arguments: Iterable[str]) -> Fields:
    """The fields as arguments of Megatron-LM; raises ``ReadingError`` for what is not read."""
    options = options_of(arguments)
    words = ["--no-create-attention-mask-in-dataloader"]  # none is made [megatron-bridge-0.6, data/datasets/sft.py]
    for name, path in PATHS.items():
        if options.get(path) is not None:
            words += _words(release, name, options[path])
    if options.get("model.num_query_groups") not in (None, options.get("model.num_attention_heads")):
        words.append("--group-query-attention")
    values = OptionValues(release, options)
    modules = options.get(MODULES)
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise ReadingError(Sentence("{} is no list of names", MODULES))
    adapters = Adapters(values.number(DIM), float(values.number(ALPHA)), tuple(modules))
    return Fields(tuple(words), TrainingTask(Task.LORA, adapters), options.get(PACKING) is True)


def _value(release: Release, name: str, words: Sequence[str]) -> Any:
    argument = release.arguments[name]
    if argument.kind is Kind.SWITCH:
        return True
    convert = {Kind.INTEGER: int, Kind.NUMBER: float}.get(argument.kind, lambda word: _TYPES.get(word, word))
    typed = [convert(word) for word in words]
    return typed if name in _LISTS else typed[0]


def _words(release: Release, name: str, value: Any) -> list[str]:
    if release.arguments[name].kind is Kind.SWITCH:
        return [f"--{name}"] if bool(value) != (name in NEGATED) else []
    if name == LAYERS:
        return [f"--{name}", f"[{','.join(map(str, value))}]"]
    given = value if isinstance(value, list) else [value]
    return [f"--{name}", *({of: word for word, of in _TYPES.items()}.get(str(each), str(each)) for each in given)]


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value

"""Rules of adapters, which Megatron-Bridge adds to the models of Megatron-Core 0.19."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Target
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.megatron_lm.bridge import packs_samples
from frameworks.offer_rules import feature_names
from frameworks.physics.memory import module_names
from frameworks.rule import Mask, Rule, SwitchRule, all_of, either, every_row, has_effect, none_of, rules_in

# Types of Hugging Face models that AutoBridge builds as they are priced, without code of the model's own.
MODEL_TYPES = ("llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v2", "deepseek_v3", "glm4_moe", "minimax_m2", "gpt_oss")
RECOMPUTED = RecomputeModule.MLP | RecomputeModule.MOE


def _adapters(workload: Workload) -> Adapters | None:
    return workload.training.task.adapters


def _on(workload: Workload, *targets: Target) -> bool:
    adapters = _adapters(workload)
    return adapters is not None and any(adapters.on(target) for target in targets)


def _adapted(rows: Callable[[Workload, StrategyBatch], Mask]) -> Callable[[Workload, StrategyBatch], Mask]:
    """The rows of jobs with adapters alone."""
    return lambda w, b: rows(w, b) if _adapters(w) is not None else none_of(b)


def _unadaptable(workload: Workload) -> str | None:
    adapters = _adapters(workload)
    if adapters is None:
        return None
    foreign = [name for name in adapters.modules if name not in MEGATRON_MODULES]
    if foreign:
        return Sentence("its layers are {}; {} are not among them", all_of(list(MEGATRON_MODULES)), joined(", ", foreign))
    if workload.model.mla is not None and adapters.on(Target.QKV):
        return Sentence("latent attention has no linear_qkv in Megatron-Core, and no adapter of that name would be made")
    return None


MODULES = Rule(
    "megatron_adapter_modules",
    "[megatron-bridge-0.6, peft/module_matcher.py; megatron-0.19, multi_latent_attention.py]",
    Sentence("adapters are of Megatron's layers, without linear_qkv of latent attention"),
    lambda w, b: every_row(b, _unadaptable(w) is not None),
    lambda w, s: Sentence("Megatron-Bridge: {}", _unadaptable(w) or ""),
    job_only=True,
)
MODEL = Rule(
    "megatron_adapter_model",
    "[megatron-bridge-0.6, models/conversion/auto_bridge.py]",
    Sentence(
        "with adapters, the type of the model, if it is stated, is one that AutoBridge builds from its configuration: {}",
        either(MODEL_TYPES),
    ),
    _adapted(lambda w, b: every_row(b, w.model.constants.model_type not in (*MODEL_TYPES, ""))),
    lambda w, s: Sentence(
        "AutoBridge of Megatron-Bridge builds no model of type {} from its configuration alone",
        w.model.constants.model_type,
    ),
    job_only=True,
)


def _divided_rank(workload: Workload) -> int:
    """The rank that tensor parallelism divides; 0 where it divides none."""
    adapters = _adapters(workload)
    return adapters.rank if adapters is not None and _on(workload, Target.QKV, Target.FC1) else 0


RANK = Rule(
    "megatron_adapter_rank",
    "[megatron-bridge-0.6, peft/utils.py; megatron-0.19, layers.py]",
    Sentence("tp divides the rank of adapters of linear_qkv and linear_fc1"),
    lambda w, b: _divided_rank(w) % b.tp != 0,
    lambda w, s: Sentence("tp {} does not divide adapter.rank {}", s.tp, _divided_rank(w)),
)


def adapts_experts(workload: Workload) -> bool:
    """Whether experts have adapters."""
    return workload.model.moe is not None and _on(workload, Target.FC1, Target.FC2)


EXPERTS = Rule(
    "megatron_adapter_experts",
    "[megatron-bridge-0.6, peft/lora.py; megatron-bridge-0.6, peft/utils.py]",
    Sentence("adapters of experts need etp 1 and moe_grouped_gemm: the price has one adapter for the experts of a rank"),
    lambda w, b: (b.etp > 1) | ~b.has(Feature.MOE_GROUPED_GEMM) if adapts_experts(w) else none_of(b),
    lambda w, s: Sentence(
        "adapters of experts with etp {}{}: what adapters exchange over etp has no price, nor has an adapter for each expert",
        s.etp,
        "" if Feature.MOE_GROUPED_GEMM in s.features else Sentence(" and without moe_grouped_gemm"),
    ),
)
SHARDING = Rule(
    "megatron_adapter_sharding",
    "[megatron-bridge-0.6, training/setup.py]",
    Sentence("adapters need zero_stage 0 or 1: the frozen model is loaded before fully sharded data parallelism divides it"),
    _adapted(lambda w, b: b.zero_stage >= 2),
    lambda w, s: Sentence("zero_stage {} with adapters: the frozen model is loaded before it is divided", s.zero_stage),
)
FP8 = Rule(
    "megatron_adapter_fp8",
    "[megatron-0.19, arguments.py; megatron-bridge-0.6, training/mixed_precision.py]",
    Sentence("in fp8, adapters need zero_stage 1: without it frozen weights are kept in 16 and in 8 bits"),
    _adapted(lambda w, b: every_row(b, w.training.precision == "fp8") & (b.zero_stage == 0)),
    lambda w, s: Sentence("precision fp8 with zero_stage {}: frozen weights would be kept in 16 and in 8 bits", s.zero_stage),
)


def _switch_rule(name: str, source: str, feature: Feature, why: str) -> SwitchRule:
    return SwitchRule(
        name,
        source,
        Sentence("{} excludes adapters: {}", feature_names(feature), why),
        _adapted(lambda w, b: has_effect(w, b, feature)),
        lambda w, s: Sentence("{} with adapters: {}", feature_names(feature), why),
        subject=feature,
        reason=lambda w, s: Sentence("it excludes adapters: {}", why),
    )


TP_OVERLAP = _switch_rule(
    "megatron_adapter_tp_overlap",
    "[megatron-bridge-0.6, peft/utils.py]",
    Feature.TP_COMM_OVERLAP,
    Sentence("they would gather their input once more, which has no price"),
)
EP_OVERLAP = _switch_rule(
    "megatron_adapter_ep_overlap",
    "[megatron-0.19, pipeline_parallel/utils.py]",
    Feature.MOE_COMM_OVERLAP,
    Sentence("it runs a backward pass of the embedding, which is frozen and has no gradient"),
)
GRAPHS = _switch_rule(
    "megatron_adapter_graphs",
    "[megatron-bridge-0.6, perf_recipes/llama/b200/llama3.py]",
    Feature.CUDA_GRAPH,
    Sentence("recipes of Megatron-Bridge capture frozen MLPs alone, and no layer with adapters"),
)
RECOMPUTE = Rule(
    "megatron_adapter_recompute",
    "[megatron-bridge-0.6, peft/recompute.py; megatron-0.19, transformer_layer.py]",
    Sentence(
        "recompute of mlp or moe needs adapters of linear_qkv or linear_proj: else the input of the first layer's MLP has no "
        "gradient, and its adapters are not trained"
    ),
    lambda w, b: (
        (b.recompute_modules & int(RECOMPUTED)) != 0
        if _adapters(w) is not None and not _on(w, Target.QKV, Target.PROJ)
        else none_of(b)
    ),
    lambda w, s: Sentence(
        "recompute of {} without adapters of linear_qkv or linear_proj: adapters of the first layer would not be trained",
        module_names(s.recompute_modules & RECOMPUTED),
    ),
)


def _unpackable(workload: Workload, batch: StrategyBatch) -> Mask:
    if _adapters(workload) is None or not packs_samples(workload):
        return none_of(batch)
    mask: Mask = (batch.micro_batch_size > 1) | ((batch.cp > 1) & (batch.cp_algo != int(CpAlgo.RING)))
    return mask | ~batch.has(Feature.FLASH_ATTENTION) | every_row(batch, workload.model.mtp_num_layers > 0)


def _why_unpackable(workload: Workload, s: ParallelStrategy) -> str:
    return Sentence(
        "samples shorter than the sequence are packed, with micro_batch_size {}, cp_algo {} over cp {}, attention {} and {} "
        "multi-token-prediction layers",
        s.micro_batch_size,
        s.cp_algo.label,
        s.cp,
        "flash_attention" if Feature.FLASH_ATTENTION in s.features else Sentence("without flash_attention"),
        workload.model.mtp_num_layers,
    )


PACKING = Rule(
    "megatron_adapter_packing",
    "[megatron-bridge-0.6, training/config.py; megatron-bridge-0.6, skills/nemo-mbridge-perf-sequence-packing; "
    "transformer-engine, context_parallel.py]",
    Sentence(
        "with adapters, packed samples run one sequence a micro batch with flash_attention, a ring over cp, and no "
        "multi-token-prediction layers"
    ),
    _unpackable,
    _why_unpackable,
)

RULES = rules_in(globals())
SWITCHES = tuple(rule for rule in RULES if isinstance(rule, SwitchRule))

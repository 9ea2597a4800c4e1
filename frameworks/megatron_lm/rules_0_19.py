"""Rules of Megatron-LM core 0.19: those of 0.12 derived again from its facts, and new ones."""

from __future__ import annotations

from functools import partial

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import TrainingJob, Workload
from documents.sentences import Sentence
from frameworks.facts import Extra, FactRule, fact_rule
from frameworks.megatron_lm import bridge_rules, rules_0_12
from frameworks.megatron_lm.arguments import unbuildable
from frameworks.megatron_lm.host_optimizer import host_optimizer_rule
from frameworks.megatron_lm.model_table import MODEL_0_19
from frameworks.megatron_lm.offload import OFFLOAD
from frameworks.megatron_lm.rules_0_12 import (
    CP_ATTENTION,
    CP_SEQUENCE,
    RECOMPUTE_MIX,
    RECOMPUTE_PLAN,
    SGD_SHARDS,
    ULYSSES_QUERY_GROUPS,
)
from frameworks.megatron_lm.table import RELEASE_0_19, TABLE_0_19, TERMS_0_19
from frameworks.offer_rules import (
    dispatcher_rule,
    model_rule,
    offered_rule,
    precision_rule,
    recipe_rule,
    schedule_rule,
    task_rule,
    two_norms_rule,
)
from frameworks.physics.memory import module_names
from frameworks.physics.pipeline import PAIRS_WAIT
from frameworks.placements import Placements, placement_rule
from frameworks.rule import Rule, has_effect, none_of, rules_in

NAME = "Megatron-LM 0.19"
TASKS = (Task.PRETRAIN, Task.SFT, Task.LORA)  # the last with Megatron-Bridge, the others with pretrain_gpt.py
ARGUMENTS, CONFIG = "[megatron-0.19, arguments.py]", "[megatron-0.19, transformer_config.py]"


def again(rule: FactRule) -> FactRule:
    """A rule of 0.12, derived from the facts of 0.19."""
    return fact_rule(RELEASE_0_19, TERMS_0_19, rule.name, rule.requirement)


TASK = task_rule("megatron_task", "[megatron-0.19, pretrain_gpt.py; megatron-bridge-0.6, finetune.py]", NAME, *TASKS)
PRECISION = precision_rule("megatron_precision", ARGUMENTS, NAME, "bf16", "fp16", "fp8", "nvfp4", "fp32")
RECIPE = recipe_rule("megatron_fp8_recipe", ARGUMENTS, NAME, "delayed", "tensorwise", "blockwise", "mxfp8")
SANDWICH_NORM = two_norms_rule("megatron_sandwich_norm", "[megatron-0.19, gpt_layer_specs.py]", Sentence("of {}", NAME))
MODEL = model_rule("megatron_model", ARGUMENTS, NAME, partial(unbuildable, RELEASE_0_19, MODEL_0_19))
FEATURES = offered_rule("megatron_features", ARGUMENTS, NAME, TABLE_0_19)
SCHEDULE = schedule_rule("megatron_schedule", "[megatron-0.19, schedules.py]", NAME, TABLE_0_19)

MOMENTS = Rule(
    "megatron_moments",
    "[megatron-0.19, optimizer_config.py]",
    Sentence("bf16_moments needs an optimizer that is sharded over the replicas"),
    lambda w, b: has_effect(w, b, Feature.BF16_MOMENTS) & (b.zero_stage == 0),
    lambda w, s: Sentence(
        "bf16_moments with zero_stage {}: core 0.19 keeps them in its distributed optimizer alone", s.zero_stage
    ),
)
HOST_OPTIMIZER = host_optimizer_rule("[megatron-0.19, arguments.py, hybrid_optimizer.py]")
QUERY_GROUPS = Rule(
    "megatron_query_groups",
    CONFIG,
    Sentence("tp divides the query groups, or they divide tp"),
    lambda w, b: (
        none_of(b) if w.model.mla else (w.model.num_query_groups % b.tp != 0) & (b.tp % max(w.model.num_query_groups, 1) != 0)
    ),
    lambda w, s: Sentence("tp {} neither divides num_query_groups {} nor is a multiple of it", s.tp, w.model.num_query_groups),
)


def _linear_heads(workload: Workload) -> int:
    local = workload.model.local_attention
    return local.num_key_heads if local is not None and local.kind == "linear" else 0


LINEAR_HEADS = Rule(
    "megatron_linear_heads",
    CONFIG,
    Sentence("tp x cp divides the key heads of linear attention"),
    lambda w, b: _linear_heads(w) % (b.tp * b.cp) != 0,
    lambda w, s: Sentence(
        "tp {} x cp {} = {} does not divide the {} key heads of linear attention", s.tp, s.cp, s.tp * s.cp, _linear_heads(w)
    ),
)

SEQUENCE_PARALLEL_FOR_EXPERTS = again(rules_0_12.SEQUENCE_PARALLEL_FOR_EXPERTS)
PLACEMENTS = Placements(mtp="last chunk")
STAGES = placement_rule(
    "megatron_stages",
    "[megatron-0.19, pipeline_parallel_layer_layout.py; megatron-0.19, multi_token_prediction.md]",
    NAME,
    PLACEMENTS,
)
P2P_OVERLAP = again(rules_0_12.P2P_OVERLAP)
PARAM_GATHER = again(rules_0_12.PARAM_GATHER)
ZERO_PIPELINE = again(rules_0_12.ZERO_PIPELINE)
ZERO_SHARD = Rule(
    "megatron_zero_shard",
    "[megatron-0.19, mcore_fsdp_adapter.py; megatron-0.19, parallel_state.py]",
    Sentence(
        "optimizer_shard_size belongs to zero_stage 1 to 3; under 2 and 3 experts have as many shards as other weights: "
        "ep x etp is tp"
    ),
    lambda w, b: (
        (b.optimizer_shard_size > 0)
        & ((b.zero_stage == 0) | (b.zero_stage >= 2) & (w.model.moe is not None) & (b.ep * b.etp != b.tp))
    ),
    lambda w, s: (
        Sentence(
            "optimizer_shard_size {} belongs to a shared optimizer, and zero_stage is {}", s.optimizer_shard_size, s.zero_stage
        )
        if s.zero_stage == 0
        else Sentence(
            "optimizer_shard_size {} with ep {} x etp {} and tp {}: experts would have another number of shards",
            *(s.optimizer_shard_size, s.ep, s.etp, s.tp),
        )
    ),
)
FSDP_EIGHT_BITS = Rule(
    "megatron_fsdp_eight_bits",
    "[megatron-0.19, megatron_fsdp/param_and_grad_buffer.py]",
    Sentence("weights that are kept in 8 bits need zero_stage 1 or 3: Megatron-FSDP casts sharded weights alone"),
    lambda w, b: (b.zero_stage == 2) & (w.training.precision == "fp8") & w.gathers_eight_bits,
    lambda w, s: Sentence("zero_stage 2 with training.fp8_param_gather: Megatron-FSDP casts sharded weights alone"),
)
TP_COMM_OVERLAP = again(rules_0_12.TP_COMM_OVERLAP)
CUDA_GRAPH = fact_rule(RELEASE_0_19, TERMS_0_19, "megatron_cuda_graph", Sentence("cuda_graph excludes full recompute"))
DISPATCHER = dispatcher_rule(
    "megatron_dispatcher",
    "[megatron-0.19, token_dispatcher.py]",
    NAME,
    TABLE_0_19,
    Sentence("experts are reached by allgather, alltoall or two_level (DeepEP)"),
)
DEEPEP_DEVICES = Rule(
    "megatron_deepep_devices",
    "[megatron-0.19, token_dispatcher.py; deepep, README]",
    Sentence("two_level dispatch runs on NVIDIA devices: DeepEP in NVLink domains of up to 8, HybridEP in larger ones"),
    lambda w, b: (
        none_of(b) if w.cluster.profile.family == "nvidia" else (b.dispatcher == Dispatcher.TWO_LEVEL) & (b.ep * b.etp > 1)
    ),
    lambda w, s: Sentence(
        "moe_dispatcher {} over ep {} is DeepEP or HybridEP, which run on NVIDIA devices; {} is of family {}",
        s.dispatcher.label,
        s.ep,
        w.cluster.profile.name,
        w.cluster.profile.family,
    ),
)
DEEPEP_CAPACITY = again(rules_0_12.DEEPEP_CAPACITY)
SHARED_EXPERT_OVERLAP = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_shared_expert_overlap",
    Sentence("moe_shared_expert_overlap needs shared experts and the all-to-all dispatcher or two_level (DeepEP)"),
    extra=rules_0_12.NO_SHARED_EXPERTS,
)
EP_OVERLAP = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_ep_overlap",
    Sentence(
        "moe_comm_overlap (overlap-moe-expert-parallel-comm) needs ep above 1, alltoall or two_level (DeepEP), 16 bits, and "
        "virtual stages over pp, and excludes full recompute, recompute of moe, moe_shared_expert_overlap and more than one "
        "multi-token-prediction layer"
    ),
    extra=Extra(
        lambda w, b: PAIRS_WAIT[b.schedule] & (b.pp > 1),
        lambda w, s: Sentence("runs without a pipeline or with virtual stages (schedule is {})", s.schedule.label),
    ),
)
ACTIVATION_RECOMPUTE = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_activation_recompute",
    rules_0_12.ACTIVATION_RECOMPUTE.requirement,
    sentence=rules_0_12.ACTIVATION_RECOMPUTE.sentence,
)
# Samples of a fine-tune are packed: attention is told where each ends, and sequences hold different numbers of them.
SFT_MICRO_BATCH = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_sft_micro_batch",
    Sentence("sft over pp runs one sequence a micro batch: later stages get sequences apart, and attention takes joined ones"),
)
SFT_OVERLAP = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_sft_overlap",
    Sentence("moe_comm_overlap excludes sft: its passes are not told where samples end"),
)
SFT_GRAPHS = fact_rule(
    RELEASE_0_19,
    TERMS_0_19,
    "megatron_sft_graphs",
    Sentence("cuda_graph excludes sft: the number of samples in a sequence changes"),
)
SFT_ATTENTION = fact_rule(
    RELEASE_0_19, TERMS_0_19, "megatron_sft_attention", Sentence("sft needs flash_attention, which takes packed samples")
)
SFT_CONTEXT = Rule(
    "megatron_sft_context",
    "[transformer-engine, context_parallel.py]",
    Sentence("sft over cp passes keys around a ring: not every Transformer Engine takes packed samples otherwise"),
    lambda w, b: (b.cp > 1) & (b.cp_algo != int(CpAlgo.RING)) & (w.training.task.name is Task.SFT),
    lambda w, s: Sentence("cp_algo {} over cp {} with packed samples of sft", s.cp_algo.label, s.cp),
)
SINGLE_BLOCKS = Rule(
    "megatron_single_blocks",
    "[megatron-0.19, pretrain_hybrid.py, hybrid_block.py]",
    Sentence("layers of one block are pre-trained, without moe_comm_overlap"),
    lambda w, b: (
        has_effect(w, b, Feature.MOE_COMM_OVERLAP) | (w.training.task.name is not Task.PRETRAIN)
        if w.model.hybrid_layer_pattern
        else none_of(b)
    ),
    lambda w, s: Sentence(
        "{} has layers of one block, which run without moe_comm_overlap and are pre-trained only", w.model.name
    ),
)
EXPERT_BIASES = Rule(
    "megatron_expert_biases",
    CONFIG,
    Sentence("experts with biases are not split: etp is 1"),
    lambda w, b: b.etp > 1 if w.model.moe is not None and w.model.moe.expert_biases else none_of(b),
    lambda w, s: Sentence("etp {} splits the experts of {}, which have biases", s.etp, w.model.name),
)


def _is_delayed(training: TrainingJob) -> bool:
    """Whether operands in 8 bits have scales of earlier steps, as without ``--fp8-recipe``."""
    return training.precision == "fp8" and (training.recipe is None or training.recipe.is_delayed)


DELAYED = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT
FP8_RECOMPUTE = Rule(
    "megatron_fp8_recompute",
    CONFIG,
    Sentence("layernorm and mlp_act are not recomputed in fp8 with delayed scaling, the default recipe"),
    lambda w, b: ((b.recompute_modules & int(DELAYED)) != 0) & _is_delayed(w.training),
    lambda w, s: Sentence("recompute of {} in fp8, whose scaling is delayed", module_names(s.recompute_modules & DELAYED)),
)
SHARED = (
    CP_SEQUENCE,
    CP_ATTENTION,
    ULYSSES_QUERY_GROUPS,
    RECOMPUTE_MIX,
    RECOMPUTE_PLAN,
    OFFLOAD,
    SGD_SHARDS,
)  # imported rules of earlier releases
RULES = (*(rule for rule in rules_in(globals()) if rule not in SHARED), *SHARED, *bridge_rules.RULES)

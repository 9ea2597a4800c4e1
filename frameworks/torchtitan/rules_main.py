"""Rules of torchtitan's main of August 2026: those of 0.2 with its own lines, and new ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.facts import fact_rule
from frameworks.fully_sharded import stack_rule, whole_layers_rule
from frameworks.offer_rules import dispatcher_rule, offered_rule, optimizer_rule, precision_rule, schedule_rule, task_rule
from frameworks.physics.memory import tensor_plan_rule
from frameworks.placements import placement_rule
from frameworks.rule import Rule, every_row, rules_in
from frameworks.torchtitan import rules
from frameworks.torchtitan.checkpoints import OVER_SHARDS, WITH_EXPERTS
from frameworks.torchtitan.flavors import FLAVORS_MAIN
from frameworks.torchtitan.rules import NAME, OPTIMIZERS, PLACEMENTS, flavor_rule, pipeline_rule
from frameworks.torchtitan.table import BY_OPERATOR
from frameworks.torchtitan.table_main import RELEASE_MAIN, TABLE_MAIN, TERMS_MAIN

FACTS = partial(fact_rule, RELEASE_MAIN, TERMS_MAIN)


def again(rule: Rule, *places: str) -> Rule:
    """A rule of 0.2 that main has in other places."""
    return replace(rule, source="[" + "; ".join(f"torchtitan-2026.08, {place}" for place in places) + "]")


TASK = task_rule("torchtitan_task", "[torchtitan-2026.08, trainer.py]", NAME, Task.PRETRAIN)
PRECISION = precision_rule("torchtitan_precision", "[torchtitan-2026.08, config/configs.py:94]", NAME, "bf16")
OPTIMIZER = optimizer_rule(
    "torchtitan_optimizer", "[torchtitan-2026.08, components/optimizer/optimizer.py:378]", NAME, *OPTIMIZERS
)
MODEL = flavor_rule(
    "[torchtitan-2026.08, models/llama3/__init__.py; torchtitan-2026.08, models/qwen3/__init__.py; "
    "torchtitan-2026.08, models/deepseek_v3/__init__.py]",
    FLAVORS_MAIN,
)


def _too_long(workload: Workload) -> Sentence | None:
    flavor = FLAVORS_MAIN.of_job(workload)
    return None if flavor is None else flavor.too_long(workload.training.seq_length)


CONTEXT_LENGTH = Rule(
    "torchtitan_context_length",
    "[torchtitan-2026.08, models/common/decoder.py:220]",
    Sentence("a sample is no longer than the rotary positions of the flavor"),
    lambda w, b: every_row(b, _too_long(w) is not None),
    lambda w, s: str(_too_long(w)),
    job_only=True,
)
GROUPED_EXPERTS = again(rules.GROUPED_EXPERTS, "models/common/moe.py:120")
SHARDED_STACK = stack_rule("torchtitan_stack", "[torchtitan-2026.08, distributed/fsdp.py:168]", NAME, "fsdp")
SHARDED = replace(
    again(rules.SHARDED, "distributed/parallel_dims.py:199"),
    requirement=Sentence("weights are sharded over two ranks or more: one rank alone with FSDP has no price"),
    sentence=lambda w, s: Sentence(
        "weights are sharded over {} of dp {} x cp {}; FSDP over one rank has no price",
        s.optimizer_shard_size or s.dp * s.cp,
        s.dp,
        s.cp,
    ),
)
ZERO_STAGE = again(rules.ZERO_STAGE, "distributed/fsdp.py:112")
SHARD_GROUPS = again(rules.SHARD_GROUPS, "distributed/fsdp.py:54")
REPLICATED_EXPERTS = again(rules.REPLICATED_EXPERTS, "distributed/parallel_dims.py:282")
EXPERT_DEGREES = Rule(
    "torchtitan_expert_degrees",
    "[torchtitan-2026.08, models/common/moe_sharding.py]",
    Sentence("etp is 1 where experts are divided over ranks, and tp where they are not"),
    lambda w, b: every_row(b, w.model.moe is not None) & (((b.ep == 1) & (b.etp != b.tp)) | ((b.ep > 1) & (b.etp != 1))),
    lambda w, s: Sentence("etp {} with ep {} and tp {}: torchtitan takes {}", s.etp, s.ep, s.tp, s.tp if s.ep == 1 else 1),
)
EXPERT_WORLD = again(rules.EXPERT_WORLD, "distributed/parallel_dims.py:187")
SEQUENCE = again(rules.SEQUENCE, "trainer.py:299")
HEADS = Rule(
    "torchtitan_heads",
    "[torchtitan-2026.08, models/common/decoder.py:195]",
    Sentence("tp divides the query groups"),
    lambda w, b: every_row(b, w.model.mla is None) & (w.model.num_query_groups % b.tp != 0),
    lambda w, s: Sentence("tp {} does not divide num_query_groups {}", s.tp, w.model.num_query_groups),
)
SEQUENCE_PARALLEL = again(rules.SEQUENCE_PARALLEL, "config/configs.py:169")
CONTEXT_PARALLEL = again(rules.CONTEXT_PARALLEL, "distributed/context_parallel/api.py")
LATENTS = again(rules.LATENTS, "models/deepseek_v3/sharding.py:112")
PIPELINE = pipeline_rule("[torchtitan-2026.08, models/common/decoder.py:168]", FLAVORS_MAIN)
SCHEDULE = schedule_rule("torchtitan_schedule", "[torchtitan-2026.08, distributed/pipeline_parallel.py]", NAME, TABLE_MAIN)
ENOUGH_MICRO_BATCHES = rules.ENOUGH_MICRO_BATCHES
GROUP_SIZE = rules.GROUP_SIZE
DISPATCHER = dispatcher_rule(
    "torchtitan_dispatcher",
    "[torchtitan-2026.08, models/common/config_utils.py]",
    NAME,
    TABLE_MAIN,
    Sentence("experts are reached by alltoall"),
)


def _loss_tokens(workload: Workload, s: ParallelStrategy) -> int:
    return workload.training.seq_length * s.micro_batch_size // s.cp


LOSS_CHUNKS = Rule(
    "torchtitan_loss_chunks",
    "[torchtitan-2026.08, components/loss.py]",
    Sentence("the chunks of the loss divide the tokens of a micro batch on a rank"),
    lambda w, b: (w.training.seq_length * b.micro_batch_size // b.cp) % max(w.software.loss_chunks, 1) != 0,
    lambda w, s: Sentence(
        "loss_chunks {} does not divide the {} tokens of a micro batch on a rank", w.software.loss_chunks, _loss_tokens(w, s)
    ),
)
FEATURES = offered_rule("torchtitan_features", "[torchtitan-2026.08, config/configs.py]", NAME, TABLE_MAIN)
ASYNC_TP = FACTS("torchtitan_async_tp", Sentence("tp_comm_overlap (async TP) needs compilation"))
TENSOR_PLAN = tensor_plan_rule("torchtitan_tensor_plan", "[torchtitan-2026.08, distributed/activation_checkpoint.py]", NAME)
WHOLE_LAYERS = whole_layers_rule(
    "torchtitan_whole_layers", "[torchtitan-2026.08, distributed/activation_checkpoint.py]", NAME, BY_OPERATOR
)
OPERATORS = Rule(
    "torchtitan_operators",
    "[torchtitan-2026.08, distributed/activation_checkpoint.py:168]",
    Sentence("recompute by operator is of all layers of a model without experts, with tp 1"),
    lambda w, b: (
        ((b.recompute_modules & int(BY_OPERATOR)) != 0)
        & ((b.recompute != Recompute.SELECTIVE) | every_row(b, w.model.moe is not None) | (b.tp > 1))
    ),
    lambda w, s: (
        Sentence("torchtitan checkpoints all layers by operator or none")
        if s.recompute is not Recompute.SELECTIVE
        else (OVER_SHARDS if w.model.moe is None else WITH_EXPERTS)
    ),
)
RECOMPUTE = Rule(
    "torchtitan_recompute",
    "[torchtitan-2026.08, distributed/activation_checkpoint.py]",
    Sentence("full recompute is of all layers"),
    lambda w, b: (
        (b.recompute == Recompute.FULL) & ((b.recompute_plan_index >= 0) | (b.recompute_method != RecomputeMethod.UNIFORM))
    ),
    lambda w, s: Sentence("main of torchtitan recomputes no layer or all layers, and the plan recomputes others"),
)
STAGES = placement_rule("torchtitan_stages", "[torchtitan-2026.08, distributed/pipeline_parallel.py]", NAME, PLACEMENTS)

RULES = rules_in(globals())

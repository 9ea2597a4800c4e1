"""Rules of Megatron-LM core 0.12, some of which MindSpeed-LLM inherits."""

from __future__ import annotations

from functools import partial

from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Recompute
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from documents.sentences import Sentence
from frameworks.facts import Extra, fact_rule
from frameworks.megatron_lm.arguments import unbuildable
from frameworks.megatron_lm.host_optimizer import host_optimizer_rule
from frameworks.megatron_lm.model_table import MODEL_0_12
from frameworks.megatron_lm.table import DEEPEP_DOMAIN, RELEASE_0_12, TABLE_0_12, TERMS_0_12, has_deepep
from frameworks.offer_rules import (
    dispatcher_rule,
    model_rule,
    offered_rule,
    optimizer_rule,
    precision_rule,
    recipe_rule,
    schedule_rule,
    task_rule,
    two_norms_rule,
)
from frameworks.physics.memory import module_names, tensor_plan_rule
from frameworks.placements import Placements, placement_rule
from frameworks.rule import Rule, every_row, none_of, rules_in

FACTS = partial(fact_rule, RELEASE_0_12, TERMS_0_12)
NAME = "Megatron-LM 0.12"

TASK = task_rule("megatron_task", "[megatron-0.12, pretrain_gpt.py]", NAME, Task.PRETRAIN)

PRECISION = precision_rule("megatron_precision", "[megatron-0.12, arguments.py]", NAME, "bf16", "fp16", "fp8", "fp32")
RECIPE = recipe_rule("megatron_fp8_recipe", "[megatron-0.12, arguments.py]", NAME, "delayed", "tensorwise", "mxfp8")
MXFP8_WEIGHTS = Rule(
    "megatron_mxfp8_weights",
    "[megatron-0.12, fp8_utils.py]",
    Sentence("weights in mxfp8 are gathered in 16 bits: training.fp8_param_gather is false"),
    lambda w, b: every_row(b, w.training.recipe is not None and w.training.fp8_recipe == "mxfp8" and w.gathers_eight_bits),
    lambda w, s: Sentence("{} before core 0.13 gathers weights of mxfp8 in 16 bits, which are priced in 8", NAME),
    job_only=True,
)

OPTIMIZERS = ("adam", "sgd")
OPTIMIZER = optimizer_rule("megatron_optimizer", "[megatron-0.12, arguments.py]", NAME, *OPTIMIZERS)

SANDWICH_NORM = two_norms_rule("megatron_sandwich_norm", "[megatron-0.12, gpt_layer_specs.py]", Sentence("of {}", NAME))

MODEL = model_rule("megatron_model", "[megatron-0.12, arguments.py]", NAME, partial(unbuildable, RELEASE_0_12, MODEL_0_12))

FEATURES = offered_rule("megatron_features", "[megatron-0.12, arguments.py]", NAME, TABLE_0_12)

SCHEDULE = schedule_rule("megatron_schedule", "[megatron-0.12, schedules.py]", NAME, TABLE_0_12)

QUERY_GROUPS = Rule(
    "megatron_query_groups",
    "[megatron-0.12, transformer_config.py]",
    Sentence("tp divides the query groups (a later Megatron also takes multiples)"),
    lambda w, b: none_of(b) if w.model.mla else w.model.num_query_groups % b.tp != 0,
    lambda w, s: Sentence("tp {} does not divide num_query_groups {}", s.tp, w.model.num_query_groups),
)

SEQUENCE_PARALLEL_FOR_EXPERTS = FACTS(
    "megatron_experts_need_sequence_parallel", Sentence("tp above 1 with ep above 1 needs sequence parallelism")
)

EXPERTS_IN_FP16 = FACTS("megatron_experts_in_fp16", Sentence("no expert parallelism in fp16"))

GROUPED_GEMM_PRECISION = FACTS("megatron_grouped_gemm_precision", Sentence("moe_grouped_gemm needs bf16 (fp8 runs on top of it)"))

CP_SEQUENCE = Rule(
    "megatron_cp_sequence",
    "[megatron-0.12, arguments.py]",
    Sentence("cp above 1 needs a sequence that 2 cp divides, whatever the algorithm"),
    lambda w, b: (b.cp > 1) & (w.training.seq_length % (2 * b.cp) != 0),
    lambda w, s: Sentence("seq_length {} is not a multiple of 2 x cp = {}", w.training.seq_length, 2 * s.cp),
)

CP_ATTENTION = Rule(
    "megatron_cp_attention",
    "[transformer-engine, utils.py]",
    Sentence("cp above 1 needs flash_attention: Transformer Engine has no other attention over several ranks"),
    lambda w, b: (b.cp > 1) & ~b.has(Feature.FLASH_ATTENTION),
    lambda w, s: Sentence(
        "cp {} without flash_attention, and Transformer Engine has no other attention over several ranks", s.cp
    ),
)

ULYSSES_QUERY_GROUPS = Rule(
    "megatron_ulysses_query_groups",
    "[transformer-engine, context_parallel.py]",
    Sentence("tp x ulysses_degree divides the query groups: Transformer Engine repeats none"),
    lambda w, b: (
        none_of(b) if w.model.mla else (b.ulysses_degree > 1) & (w.model.num_query_groups % (b.tp * b.ulysses_degree) != 0)
    ),
    lambda w, s: Sentence(
        "tp {} x ulysses_degree {} = {} does not divide num_query_groups {}, which Transformer Engine does not repeat",
        s.tp,
        s.ulysses_degree,
        s.tp * s.ulysses_degree,
        w.model.num_query_groups,
    ),
)

ULYSSES_LATENT = Rule(
    "megatron_ulysses_latent",
    "[transformer-engine, context_parallel.py]",
    Sentence(
        "ulysses and kv_allgather exclude latent attention: no Transformer Engine of core 0.12's time exchanges values of "
        "another width than keys"
    ),
    lambda w, b: ((b.cp_algo == CpAlgo.ULYSSES) | (b.cp_algo == CpAlgo.KV_ALLGATHER)) & (b.cp > 1) if w.model.mla else none_of(b),
    lambda w, s: Sentence(
        "cp {} with cp_algo {} in latent attention, which Transformer Engine before 2.15 refuses", s.cp, s.cp_algo.label
    ),
)

CP_MTP = FACTS("megatron_cp_mtp", Sentence("multi-token prediction excludes context parallelism"))


PLACEMENTS = Placements(even=True)
STAGES = placement_rule(
    "megatron_stages", "[megatron-0.12, transformer_config.py; megatron-0.12, transformer_block.py]", NAME, PLACEMENTS
)

P2P_OVERLAP = FACTS("megatron_p2p_overlap", Sentence("virtual stages over pp 2 overlap their sends and receives (overlap_p2p)"))

PARAM_GATHER = FACTS("megatron_param_gather", Sentence("overlap_param_gather needs overlap_grad_reduce"))

ZERO_PIPELINE = FACTS(
    "megatron_zero_pipeline", Sentence("zero_stage 2 and 3 (fully sharded data parallelism) run without a pipeline")
)

ZERO_SHARD = Rule(
    "megatron_zero_shard",
    "[megatron-0.12, distributed_data_parallel_config.py]",
    Sentence("optimizer_shard_size belongs to zero_stage 1"),
    lambda w, b: (b.optimizer_shard_size > 0) & (b.zero_stage != 1),
    lambda w, s: Sentence(
        "optimizer_shard_size {} belongs to zero_stage 1, and zero_stage is {}", s.optimizer_shard_size, s.zero_stage
    ),
)

TP_COMM_OVERLAP = FACTS(
    "megatron_tp_comm_overlap",
    Sentence(
        "tp_comm_overlap needs sequence parallelism; core 0.12 has none in latent attention and beside multi-token prediction"
    ),
)

CUDA_GRAPH = FACTS("megatron_cuda_graph", Sentence("cuda_graph excludes recompute"))

DISPATCHER = dispatcher_rule(
    "megatron_dispatcher",
    "[megatron-0.12, token_dispatcher.py]",
    NAME,
    TABLE_0_12,
    Sentence("experts are reached by allgather, alltoall or two_level (DeepEP)"),
)

DEEPEP_DEVICES = Rule(
    "megatron_deepep_devices",
    "[deepep, README; megatron-0.12, fused_a2a.py]",
    Sentence("two_level dispatch (DeepEP) runs on NVIDIA devices with NVLink inside nodes of up to 8"),
    lambda w, b: none_of(b) if has_deepep(w.cluster) else (b.dispatcher == Dispatcher.TWO_LEVEL) & (b.ep * b.etp > 1),
    lambda w, s: Sentence(
        "moe_dispatcher {} over ep {} is DeepEP, which runs on NVIDIA devices in NVLink domains of up to "
        "{}; {} is of family {}, in domains of "
        "{}",
        s.dispatcher.label,
        s.ep,
        DEEPEP_DOMAIN,
        w.cluster.profile.name,
        w.cluster.profile.family,
        expert_domain_devices(w.cluster),
    ),
)

DEEPEP_CAPACITY = FACTS("megatron_deepep_capacity", Sentence("two_level dispatch (DeepEP) excludes moe_pad_to_capacity"))

NO_SHARED_EXPERTS = Extra(
    lambda w, b: w.model.moe is None or w.model.moe.num_shared_experts == 0, lambda w, s: Sentence("needs shared experts")
)
SHARED_EXPERT_OVERLAP = FACTS(
    "megatron_shared_expert_overlap",
    Sentence("moe_shared_expert_overlap needs shared experts and the all-to-all dispatcher"),
    extra=NO_SHARED_EXPERTS,
    sentence=lambda w, s: Sentence(
        "moe_shared_expert_overlap needs shared experts ({} has {}) and moe_dispatcher alltoall (it is {})",
        w.model.name,
        w.model.moe.num_shared_experts if w.model.moe else 0,
        s.dispatcher.label,
    ),
)

ACTIVATION_RECOMPUTE = FACTS(
    "megatron_activation_recompute",
    Sentence("mlp_act is recomputed in experts with moe_grouped_gemm only"),
    sentence=lambda w, s: Sentence(
        "mlp_act recompute works in experts with moe_grouped_gemm only; {} has {} experts",
        w.model.name,
        w.model.moe.num_experts if w.model.moe else 0,
    ),
)

RECOMPUTE_MIX = Rule(
    "megatron_recompute_mix",
    "[megatron-0.12, transformer_config.py]",
    Sentence("recompute is full or by module, not both"),
    lambda w, b: (b.recompute == Recompute.FULL) & (b.recompute_modules != 0),
    lambda w, s: Sentence(
        "full recompute together with {}: Megatron-LM takes one granularity", module_names(s.recompute_modules)
    ),
)

RECOMPUTE_PLAN = Rule(
    "megatron_recompute_plan",
    "[megatron-0.12, arguments.py]",
    Sentence("recompute has one number of layers for all stages"),
    lambda w, b: b.recompute_plan_index >= 0,
    lambda w, s: Sentence(
        "recompute layers_per_stage with {} entries: Megatron takes one number of layers for all stages",
        len(s.recompute_layers_per_stage or ()),
    ),
)

TENSOR_PLAN = tensor_plan_rule("megatron_tensor_plan", "[megatron-0.12, arguments.py]", "Megatron")
SGD_SHARDS = Rule(
    "megatron_sgd_shards",
    "[megatron-0.12, distrib_optimizer.py]",
    Sentence("sgd has no distributed optimizer: zero_stage is 0"),
    lambda w, b: (b.zero_stage > 0) if w.training.optimizer.name == "sgd" else none_of(b),
    lambda w, s: Sentence("zero_stage {} with optimizer sgd: the distributed optimizer takes adam alone", s.zero_stage),
)

HOST_OPTIMIZER = host_optimizer_rule("[megatron-0.12, arguments.py, hybrid_optimizer.py]")

# MindSpeed-LLM inherits them.
FAMILY_RULES = (
    QUERY_GROUPS,
    SEQUENCE_PARALLEL_FOR_EXPERTS,
    EXPERTS_IN_FP16,
    GROUPED_GEMM_PRECISION,
    PARAM_GATHER,
    SHARED_EXPERT_OVERLAP,
    SGD_SHARDS,
)
RULES = rules_in(globals())

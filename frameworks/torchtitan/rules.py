"""Rules of torchtitan 0.2.2: its validators, and what a file of it cannot say or makes another run than the one that is priced.

A source has the file and the line of the release.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.layer_keys import distinct_rows
from cost_models.shapes.strategy import CpAlgo, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.traits import Generation
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks import fully_sharded
from frameworks.facts import fact_rule
from frameworks.fixed import Fixed
from frameworks.fully_sharded import checkpoints, stack_rule, whole_layers_rule
from frameworks.offer_rules import dispatcher_rule, offered_rule, optimizer_rule, precision_rule, schedule_rule, task_rule
from frameworks.physics.memory import tensor_plan_rule
from frameworks.placements import Placements, placement_rule
from frameworks.rule import Mask, Rule, every_row, layout_of, most_stages, num_microbatches, rules_in
from frameworks.torchtitan.checkpoints import IN_PARTS, KEEPS_EXCHANGE, mode_of
from frameworks.torchtitan.flavors import FLAVORS, Flavors
from frameworks.torchtitan.table import BY_OPERATOR, RELEASE, TABLE, TERMS

FACTS = partial(fact_rule, RELEASE, TERMS)
NAME = "torchtitan"

TASK = task_rule("torchtitan_task", "[torchtitan-0.2, train.py:117]", NAME, Task.PRETRAIN)
PRECISION = precision_rule("torchtitan_precision", "[torchtitan-0.2, job_config.py:282]", NAME, "bf16")
OPTIMIZERS = ("adam",)
OPTIMIZER = optimizer_rule("torchtitan_optimizer", "[torchtitan-0.2, job_config.py]", NAME, *OPTIMIZERS)


def flavor_rule(source: str, flavors: Flavors) -> Rule:
    """The model is one that a release trains."""
    return Rule(
        "torchtitan_model",
        source,
        Sentence("the model is a flavor of torchtitan without chunks of attention, and one within documents for packed samples"),
        lambda w, b: every_row(b, flavors.of_job(w) is None),
        lambda w, s: flavors.none_for(w.model),
        job_only=True,
    )


MODEL = flavor_rule(
    "[torchtitan-0.2, train.py:138; torchtitan-0.2, models/llama3/__init__.py; torchtitan-0.2, models/qwen3/__init__.py; "
    "torchtitan-0.2, models/deepseek_v3/__init__.py; torchtitan-0.2, models/llama4/__init__.py]",
    FLAVORS,
)
GROUPED_EXPERTS = Rule(
    "torchtitan_grouped_experts",
    "[torchtitan-0.2, models/moe/moe.py:37]",
    Sentence("experts run on a Hopper GPU or a newer one: on older ones they are not one grouped matmul"),
    lambda w, b: every_row(b, w.model.moe is not None and w.device_traits.generation < Generation.HOPPER),
    lambda w, s: Sentence(
        "{} is older than a Hopper GPU, and experts of {} would run one after the other", w.cluster.profile.device, w.model.name
    ),
    job_only=True,
)
SHARDED_STACK = stack_rule("torchtitan_stack", "[torchtitan-0.2, models/llama3/infra/parallelize.py:125]", NAME, "fsdp")


def shards(batch: StrategyBatch) -> NDArray[np.int64]:
    """Ranks that share the weights: dp_shard x cp. ``[n]``"""
    size: NDArray[np.int64] = np.where(batch.optimizer_shard_size > 0, batch.optimizer_shard_size, batch.dp * batch.cp)
    return size


SHARDED = Rule(
    "torchtitan_sharded",
    "[torchtitan-0.2, distributed/utils.py:246; torchtitan-0.2, models/llama3/infra/parallelize.py:151]",
    Sentence("weights are sharded over two ranks or more: others are computed in FP32, or refused beside tp and pp"),
    lambda w, b: shards(b) < 2,
    lambda w, s: Sentence(
        "weights are sharded over {} of dp {} x cp {}, and torchtitan then computes in FP32 or refuses the layout",
        s.optimizer_shard_size or s.dp * s.cp,
        s.dp,
        s.cp,
    ),
)
ZERO_STAGE = Rule(
    "torchtitan_zero_stage",
    "[torchtitan-0.2, models/llama3/infra/parallelize.py:319]",
    Sentence("zero_stage is 3 (fsdp_reshard_after_forward always) or 2 (never)"),
    lambda w, b: (b.zero_stage < 2) & (shards(b) > 1),
    lambda w, s: Sentence("zero_stage {}: torchtitan shards weights and gradients in every layout", s.zero_stage),
)
SHARD_GROUPS = Rule(
    "torchtitan_shard_groups",
    "[torchtitan-0.2, parallel_dims.py:137]",
    Sentence("cp divides optimizer_shard_size, which is data_parallel_shard_degree x cp"),
    lambda w, b: (b.optimizer_shard_size % b.cp) != 0,
    lambda w, s: Sentence("optimizer_shard_size {} is no multiple of cp {}", s.optimizer_shard_size, s.cp),
)
REPLICATED_EXPERTS = Rule(
    "torchtitan_replicated_experts",
    "[torchtitan-0.2, parallel_dims.py:138]",
    Sentence("with replicas of shards, an expert has as many shards as other weights: ep x etp is tp"),
    lambda w, b: (
        every_row(b, w.model.moe is not None)
        & (b.optimizer_shard_size > 0)
        & (b.optimizer_shard_size < b.dp * b.cp)
        & (b.ep * b.etp != b.tp)
    ),
    lambda w, s: Sentence(
        "ep {} x etp {} = {} is not tp {}: torchtitan then shards experts over {} of the {} ranks of a replica, "
        "and the price has one size of shards",
        s.ep,
        s.etp,
        s.ep * s.etp,
        s.tp,
        max(s.optimizer_shard_size * s.tp // (s.ep * s.etp), 1),
        s.optimizer_shard_size,
    ),
)
EXPERT_DEGREES = Rule(
    "torchtitan_expert_degrees",
    "[torchtitan-0.2, parallel_dims.py:59; torchtitan-0.2, models/qwen3/infra/parallelize.py:111]",
    Sentence("etp is 1 or tp where experts are divided over ranks, and tp where they are not"),
    lambda w, b: every_row(b, w.model.moe is not None) & (b.etp != b.tp) & ((b.ep == 1) | (b.etp != 1)),
    lambda w, s: Sentence(
        "etp {} with ep {} and tp {}: torchtitan takes {}", s.etp, s.ep, s.tp, "1" if s.tp == 1 else _etp(s.ep, s.tp)
    ),
)


def _etp(ep: int, tp: int) -> str:
    return str(tp) if ep == 1 else Sentence("1 or {}", tp)


EXPERT_WORLD = Rule(
    "torchtitan_expert_world",
    "[torchtitan-0.2, parallel_dims.py:138]",
    Sentence("ep x etp divides data_parallel_shard_degree x cp x tp"),
    lambda w, b: every_row(b, w.model.moe is not None) & ((shards(b) * b.tp) % (b.ep * b.etp) != 0),
    lambda w, s: Sentence("ep {} x etp {} does not divide {} x tp {}", s.ep, s.etp, s.optimizer_shard_size or s.dp * s.cp, s.tp),
)
SEQUENCE = Rule(
    "torchtitan_sequence",
    "[torchtitan-0.2, parallel_dims.py:372; torchtitan-0.2, models/llama3/infra/parallelize.py:69]",
    Sentence("the sequence divides by tp x 2 cp"),
    lambda w, b: w.training.seq_length % (b.tp * 2 * b.cp) != 0,
    lambda w, s: Sentence("seq_length {} does not divide by tp {} x 2 cp {}", w.training.seq_length, s.tp, s.cp),
)
SEQUENCE_PARALLEL = Rule(
    "torchtitan_sequence_parallel",
    "[torchtitan-0.2, models/llama3/infra/parallelize.py:161]",
    Sentence("tensor-parallel layers divide the sequence between them"),
    lambda w, b: (b.tp > 1) & (b.sequence_parallel == 0),
    lambda w, s: Sentence("tp {} without sequence parallelism: the layers always have it", s.tp),
)
CONTEXT_PARALLEL = Rule(
    "torchtitan_context_parallel",
    "[torchtitan-0.2, distributed/context_parallel.py:53; pytorch, _context_parallel/_attention.py]",
    Sentence("context parallelism is kv_allgather"),
    lambda w, b: (b.cp > 1) & (b.cp_algo != CpAlgo.KV_ALLGATHER),
    lambda w, s: Sentence("{} over cp {}: torchtitan gathers keys and values", s.cp_algo.label, s.cp),
)
DOCUMENTS = Rule(
    "torchtitan_documents",
    "[torchtitan-0.2, models/llama3/model/args.py:55; torchtitan-0.2, models/deepseek_v3/model/args.py:101; "
    "torchtitan-0.2, models/llama4/model/args.py:79]",
    Sentence("context parallelism is of attention to whole sequences; within documents it is of FlexAttention of llama3 alone"),
    lambda w, b: (b.cp > 1) & every_row(b, (flavor := FLAVORS.of_job(w)) is not None and not flavor.takes_cp),
    lambda w, s: Sentence("cp {}: torchtitan's {} attends within documents", s.cp, w.model.name),
)
LATENTS = Rule(
    "torchtitan_latents",
    "[torchtitan-0.2, models/deepseek_v3/infra/parallelize.py:268]",
    Sentence("latent attention has tp 1: torchtitan's ranks each project the whole sequence to latents, which has no price"),
    lambda w, b: (b.tp > 1) & every_row(b, w.model.mla is not None),
    lambda w, s: Sentence("tp {}: each rank projects the whole sequence to latents, which has no price", s.tp),
)


def pipeline_rule(source: str, flavors: Flavors) -> Rule:
    """The release cuts the model into stages."""
    return Rule(
        "torchtitan_pipeline",
        source,
        Sentence("a pipeline has a model that torchtitan can cut"),
        lambda w, b: (b.pp > 1) & every_row(b, (flavor := flavors.of_job(w)) is not None and not flavor.has_pipelines),
        lambda w, s: Sentence("pp {}: torchtitan has no pipelines for {}", s.pp, w.model.name),
    )


PIPELINE = pipeline_rule("[torchtitan-0.2, train.py:222; torchtitan-0.2, models/qwen3/__init__.py:199]", FLAVORS)
SCHEDULE = schedule_rule("torchtitan_schedule", "[torchtitan-0.2, pipeline_parallel.py:55]", NAME, TABLE)
_1F1B = [schedule for schedule, name in TABLE.schedules.items() if name == "1F1B"]
ENOUGH_MICRO_BATCHES = Rule(
    "torchtitan_micro_batches",
    "[pytorch, schedules.py, Schedule1F1B]",
    Sentence("1F1B has a micro batch for each stage"),
    lambda w, b: (b.pp > 1) & np.isin(b.schedule, _1F1B) & (b.num_microbatches(w.training.global_batch_size) < b.pp),
    lambda w, s: Sentence("1F1B over pp {} has {} micro batches, and PyTorch needs {}", s.pp, num_microbatches(w, s), s.pp),
)
GROUP_SIZE = Rule(
    "torchtitan_group_size",
    "[pytorch, schedules.py, ScheduleInterleaved1F1B]",
    Sentence("an interleaved chunk takes pp micro batches in turn"),
    lambda w, b: (b.microbatch_group_size_per_vp_stage != 0) & (b.microbatch_group_size_per_vp_stage != b.pp),
    lambda w, s: Sentence(
        "microbatch_group_size_per_vp_stage {}: PyTorch's interleaved schedule takes pp {} in turn",
        s.microbatch_group_size_per_vp_stage,
        s.pp,
    ),
)
DISPATCHER = dispatcher_rule(
    "torchtitan_dispatcher",
    "[torchtitan-0.2, job_config.py:474]",
    NAME,
    TABLE,
    Sentence("experts are reached by alltoall"),
)
FEATURES = offered_rule("torchtitan_features", "[torchtitan-0.2, job_config.py]", NAME, TABLE)
ASYNC_TP = FACTS("torchtitan_async_tp", Sentence("tp_comm_overlap (async TP) needs compilation"))
TENSOR_PLAN = tensor_plan_rule("torchtitan_tensor_plan", "[torchtitan-0.2, activation_checkpoint.py:159]", NAME)


def _has_no_mode(workload: Workload, batch: StrategyBatch) -> Mask:
    """Rows whose recompute no mode of activation checkpoints makes; each distinct one is looked up once.

    The placement counts where layers of each rank are given, which a search of placements does not have.
    """
    by_rank = batch.recompute_plan_index >= 0
    block = (batch.recompute == Recompute.FULL) & (batch.recompute_method == RecomputeMethod.BLOCK) & ~by_rank
    mask: Mask = block & (batch.pp > 1)
    rows = np.flatnonzero((block & ~mask) | (by_rank & (batch.pp * batch.vpp <= most_stages(workload.model, batch))))
    if not len(rows):
        return mask
    chosen = batch.take(rows)
    columns = [chosen.pp, chosen.vpp, chosen.schedule, chosen.layout_index, chosen.recompute_plan_index]
    first, index = distinct_rows([*columns, chosen.recompute, chosen.recompute_method, chosen.recompute_num_layers])
    strategies = [chosen.row(int(row)) for row in first]
    layers = ((workload.model.num_layers,),)
    verdicts = [mode_of(checkpoints(s), layers if s.pp == 1 else layout_of(workload, s)) is None for s in strategies]
    mask[rows] = np.array(verdicts, dtype=np.bool_)[index]
    return mask


WHOLE_LAYERS = whole_layers_rule("torchtitan_whole_layers", "[torchtitan-0.2, activation_checkpoint.py:159]", NAME, BY_OPERATOR)


def _by_operator(batch: StrategyBatch) -> Mask:
    found: Mask = (batch.recompute_modules & int(BY_OPERATOR)) != 0
    return found


def operators_rule(source: str, flavors: Flavors) -> Rule:
    """Where checkpoints by operator are those that are priced."""

    def keeps_exchange(workload: Workload) -> bool:
        flavor = flavors.of_job(workload)
        return flavor is not None and flavor.keeps_exchange

    return Rule(
        "torchtitan_operators",
        source,
        Sentence("recompute by operator is of all layers, and of layers with experts only where these are not compiled"),
        lambda w, b: (
            _by_operator(b)
            & (
                (b.recompute != Recompute.SELECTIVE)
                | every_row(b, w.model.moe is not None and w.software.torch_compile)
                | ((b.ep > 1) & keeps_exchange(w))
            )
        ),
        lambda w, s: (
            Sentence("torchtitan checkpoints all layers by operator or none")
            if s.recompute is not Recompute.SELECTIVE
            else (IN_PARTS if w.software.torch_compile else KEEPS_EXCHANGE)
        ),
    )


OPERATORS = operators_rule(
    "[torchtitan-0.2, activation_checkpoint.py:51; torchtitan-0.2, models/llama4/infra/parallelize.py:593]", FLAVORS
)
RECOMPUTE = Rule(
    "torchtitan_recompute",
    "[torchtitan-0.2, activation_checkpoint.py:39]",
    Sentence("full recompute is of all layers, or of each n-th layer of a rank; in a pipeline by layers_per_stage"),
    _has_no_mode,
    lambda w, s: Sentence(
        "torchtitan recomputes no layer, all layers, or each n-th layer of a rank, and the plan recomputes others"
    ),
)
PLACEMENTS = Placements()
STAGES = placement_rule("torchtitan_stages", "[torchtitan-0.2, pipeline_parallel.py:236]", NAME, PLACEMENTS)

_COMPILED = Sentence("the plan's kernels are those of compiled layers")
FIXED = (
    *(Fixed(f, lambda w, b: every_row(b, w.software.torch_compile), _COMPILED, on=True) for f in Feature if f in FUSED_KERNELS),
    *(
        Fixed(f, lambda w, b: every_row(b, not w.software.torch_compile), Sentence("the layers are not compiled"))
        for f in Feature
        if f in FUSED_KERNELS
    ),
    *fully_sharded.FIXED,
    Fixed(Feature.MOE_GROUPED_GEMM, lambda w, b: every_row(b, True), Sentence("the experts are one grouped matmul"), on=True),
    Fixed(
        Feature.MOE_PERMUTE_FUSION,
        lambda w, b: every_row(b, True),
        Sentence("tokens are sorted and then gathered, by two kernels"),
    ),
    Fixed(
        Feature.OVERLAP_P2P,
        lambda w, b: every_row(b, True),
        Sentence("PyTorch's schedule sends beside the next chunk"),
        on=True,
    ),
)

RULES = rules_in(globals())

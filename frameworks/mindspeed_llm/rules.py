"""Rules of MindSpeed-LLM on MindSpeed, in addition to those it inherits from Megatron-LM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from cost_models.shapes.precision import HIF8_RECIPE
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import (
    CpAlgo,
    Dispatcher,
    LayerLayout,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    StrategyBatch,
    by_schedule,
)
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence, joined
from frameworks.caution import Caution
from frameworks.facts import Extra, fact_rule
from frameworks.megatron_lm.arguments import told, unbuildable
from frameworks.megatron_lm.rules_0_12 import FAMILY_RULES
from frameworks.mindspeed_llm.layers import RULES as LAYER_RULES
from frameworks.mindspeed_llm.model_table import BY_BEST, MODEL
from frameworks.mindspeed_llm.sparse_rules import RULES as SPARSE_RULES
from frameworks.mindspeed_llm.specs import traits_of, unbuilt
from frameworks.mindspeed_llm.table import BY_LAYER, HAS_METHOD, RELEASE, TABLE, TERMS
from frameworks.mindspeed_llm.task_rules import RULES as TASK_RULES
from frameworks.offer_rules import dispatcher_rule, model_rule, offered_rule, precision_rule, schedule_rule
from frameworks.physics.memory import module_names
from frameworks.physics.pipeline import IN_GROUPS, PAIRS_WAIT
from frameworks.placements import Placements, placement_rule
from frameworks.rule import (
    Mask,
    Rule,
    SwitchRule,
    all_of,
    every_row,
    has_effect,
    layout_of,
    layout_violates,
    none_of,
    num_microbatches,
    rules_in,
)

FACTS = partial(fact_rule, RELEASE, TERMS)
NAME = "MindSpeed-LLM"
IS_VEE = by_schedule(lambda rules: rules.is_vee)

CONTEXT_PARALLEL = Rule(
    "mindspeed_context_parallel",
    "[mindspeed, context_parallel_feature.py; mindspeed-llm, te_cp_dot_product_attention.py]",
    Sentence("context parallelism is ring, ulysses or hybrid: kvallgather_cp_algo needs other layers than those that are priced"),
    lambda w, b: (b.cp > 1) & (b.cp_algo == CpAlgo.KV_ALLGATHER),
    lambda w, s: Sentence(
        "kv_allgather over cp {}: kvallgather_cp_algo needs --transformer-impl transformer_engine, whose layers are priced in 8 "
        "bits alone",
        s.cp,
    ),
)
PRECISION = precision_rule(  # fp8 where the devices have it: Ascend 950
    "mindspeed_precision",
    "[megatron-0.12, arguments.py; mindspeed, transformer_engine_basic.py]",
    NAME,
    "bf16",
    "fp16",
    "fp8",
    "hif8",
    "fp32",
)
HIF8 = Rule(
    "mindspeed_fp8_recipe",
    "[mindspeed, transformer_engine_basic.py]",
    Sentence("hif8 runs with the recipe {}", HIF8_RECIPE),
    lambda w, b: every_row(b, w.training.precision == "hif8" and w.training.fp8_recipe != HIF8_RECIPE),
    lambda w, s: Sentence("hif8 with the recipe {}: {} takes {}", w.training.fp8_recipe, NAME, HIF8_RECIPE),
    job_only=True,
)
EXPERT_RECIPE = Rule(
    "mindspeed_expert_recipe",
    "[mindspeed, transformer_engine_basic.py; mindspeed, grouped_matmul_util.py]",
    Sentence("experts are multiplied in 8 bits, which the recipe blockwise leaves in 16"),
    lambda w, b: every_row(b, w.model.moe is not None and w.training.recipe is not None and w.training.fp8_recipe == "blockwise"),
    lambda w, s: Sentence("with the recipe blockwise {} multiplies experts in 16 bits, which is not priced", NAME),
    job_only=True,
)
FEATURES = offered_rule("mindspeed_features", "[mindspeed, features_manager]", NAME, TABLE)
MODEL_RULE = model_rule("mindspeed_model", "[mindspeed-llm, features_manager]", NAME, partial(unbuildable, RELEASE, MODEL))
SCHEDULE = schedule_rule("mindspeed_schedule", "[mindspeed, features_manager/pipeline_parallel]", NAME, TABLE)

MOE_FREQUENCY = Rule(
    "mindspeed_moe_frequency",
    "[mindspeed-llm, transformer_block.py]",
    Sentence("after the leading dense layers every layer is MoE"),
    lambda w, b: every_row(b, w.model.moe is not None and w.model.moe.moe_layer_freq > 1),
    lambda w, s: Sentence(
        "moe_layer_freq {}: MindSpeed-LLM counts it from the first layer, which makes other layers MoE; only 1 means the same",
        w.model.moe.moe_layer_freq if w.model.moe else 1,
    ),
    job_only=True,
)

ZERO_STAGE = Rule(
    "mindspeed_zero_stage",
    "[mindspeed-llm, features_manager]",
    Sentence("zero_stage is 0 or 1, over all data-parallel ranks"),
    lambda w, b: (b.zero_stage > 1) | (b.optimizer_shard_size > 0),
    lambda w, s: Sentence(
        "zero_stage {} with optimizer_shard_size {}: the Megatron back end of MindSpeed-LLM "
        "shards the optimizer (1) over all data-parallel ranks (0)",
        s.zero_stage,
        s.optimizer_shard_size,
    ),
)


def noop_positions(layout: LayerLayout, *, vee: bool) -> tuple[int, ...]:
    """Positions, from 0, of the no-op layers that pad every virtual stage to the same length, at its end.

    In a V they are at the start of every stage but the model's last. The output of a no-op layer is a view there, and a stage
    that sends one stops: "counter-productive to free a view" [mindspeed-fb-overlap, fwd.py; mindspeed-dualpipev].
    """
    slots = max(map(max, layout))
    stages = [layers for row in layout for layers in row]
    return tuple(
        stage * slots + slot
        for stage, layers in enumerate(stages)
        for slot in (range(slots - layers) if vee and stage < len(stages) - 1 else range(layers, slots))
    )


def first_moe_position(layout: LayerLayout, model: ModelShape, *, vee: bool) -> int:
    """Position of the first MoE layer, including no-op layers: the value of ``--first-k-dense-replace``."""
    noops = set(noop_positions(layout, vee=vee))
    total = max(map(max, layout)) * len(layout) * len(layout[0])
    real = [position for position in range(total) if position not in noops]
    dense = model.moe.num_leading_dense_layers if model.moe else model.num_layers
    return real[dense] if dense < len(real) else total


# No-op layers fill every virtual stage to the length of the longest, so that any may be empty [mindspeed, noop_layers]; but
# ``--first-k-dense-replace`` counts them and is less than the slots of a rank [mindspeed-llm, transformer_block_feature].
PLACEMENTS = Placements(early_moe=True)
MERGED_CHUNKS = Placements(early_moe=True, full_but_last=True)  # placements with moe_comm_overlap and virtual stages
STAGES = placement_rule(
    "mindspeed_stages", "[mindspeed, noop_layers; mindspeed-llm, transformer_block_feature]", NAME, PLACEMENTS
)


def _no_spec_sentence(workload: Workload, _strategy: ParallelStrategy) -> str:
    model = workload.model
    return Sentence(
        "layers of {} have {}, and no --spec of MindSpeed-LLM builds such layers: it would train another model",
        model.name,
        all_of(traits_of(model)),
    )


LAYER_SPEC = Rule(
    "mindspeed_layer_spec",
    "[mindspeed-llm, tasks/models/spec]",
    Sentence("one of MindSpeed-LLM's layer specifications builds all that the model's layers have"),
    lambda w, b: every_row(b, bool(unbuilt(w.model))),
    _no_spec_sentence,
    job_only=True,
)

MLA_QUERIES = FACTS(
    "mindspeed_mla_queries",
    Sentence("latent attention whose queries are not compressed runs with tp 1: every rank would take the same heads"),
    sentence=lambda w, s: Sentence(
        "latent attention over tp {} needs compressed queries (q_lora_rank), and {} has none: MindSpeed-LLM "
        "does not split them, and every rank would take the same heads",
        s.tp,
        w.model.name,
    ),
)

MLA_UP_PROJ = FACTS("mindspeed_mla_up_proj", Sentence("recompute of mla_up_proj over tp needs sequence parallelism"))

POST_NORM = FACTS(
    "mindspeed_post_norm", Sentence("recompute of layernorm excludes norms behind attention and MLP, which it would leave out")
)

MC2 = FACTS("mindspeed_mc2", Sentence("mc2 needs sequence parallelism and excludes MoE and coc"))

MC2_RECIPE = FACTS("mindspeed_mc2_recipe", Sentence("mc2 in 8 bits runs with the recipe mxfp8"))
COC = FACTS("mindspeed_coc", Sentence("coc excludes 8 bits, which run on the layers of Transformer Engine"))

COC_BESIDE_EXPERTS = Caution(
    Feature.COC,
    lambda w, b: every_row(b, w.model.moe is not None),
    Sentence(
        "coc beside experts: MindSpeed's validators take it, and scripts of MindSpeed-LLM set it, but MindSpeed's page says that "
        "it is not adapted to MoE; it is priced on the dense linear layers alone, and a search does not set it"
    ),
    "[mindspeed, communication-over-computation.md]",
)

NORM_OVER_HEADS = FACTS(
    "mindspeed_norm_over_heads",
    Sentence("norms of queries and keys over all heads run with tp 1: a rank has only its own heads"),
)

LINEAR_ATTENTION = FACTS("mindspeed_linear_attention", Sentence("linear attention runs with tp 1 and cp 1"))


def _shifts_attention(vee: bool, layout: LayerLayout, _before_head: int, model: ModelShape) -> bool:
    """Whether no-op layers give a layer another kind of attention than the model has: positions count them."""
    every = model.local_attention.full_attention_every if model.local_attention is not None else 0
    noops = set(noop_positions(layout, vee=vee))
    if not every or not noops:
        return False
    total = max(map(max, layout)) * len(layout) * len(layout[0])
    real = [position for position in range(total) if position not in noops]
    return any((position - index) % every for index, position in enumerate(real))


LINEAR_NOOP = Rule(
    "mindspeed_linear_noop",
    "[mindspeed-llm, transformer_block.py]",
    Sentence("with linear attention, every layer has a multiple of the attention interval of no-op layers before it"),
    lambda w, b: (
        np.where(IS_VEE[b.schedule], *(layout_violates(w, b, partial(_shifts_attention, vee)) for vee in (True, False)))
        if w.model.local_attention is not None and w.model.local_attention.is_linear
        else none_of(b)
    ),
    lambda w, s: Sentence(
        "full attention is in every {}th layer, no-op layers counted, and {} layers over pp {} leave them at positions {}",
        w.model.local_attention.full_attention_every if w.model.local_attention else 0,
        w.model.num_layers,
        s.pp,
        joined(", ", map(str, noop_positions(layout_of(w, s), vee=s.schedule.rules.is_vee))),
    ),
    reads_placement=True,
)

TP_2D = FACTS(
    "mindspeed_tp_2d",
    Sentence(
        "tp_2d excludes sequence parallelism, fused_norm, coc, expert and hybrid context parallelism, and splits an even tp"
    ),
    extra=Extra(lambda w, b: b.tp % 2 != 0, lambda w, s: Sentence("needs an even tp (it is {})", s.tp)),
)

DISPATCHER = dispatcher_rule(
    "mindspeed_dispatcher",
    "[mindspeed, features_manager/moe; mindspeed-0.8, hierarchical-alltoallv.md]",
    NAME,
    TABLE,
    Sentence("experts are reached by allgather or alltoall (hierarchical all-to-all exists in MindSpeed core_r0.8.0 only)"),
)


CAPACITY = FACTS("mindspeed_capacity", Sentence("a capacity factor excludes the allgather dispatcher"))


def _by_best(workload: Workload) -> bool:
    return told(MODEL, workload).get("group_choice") == BY_BEST


GROUP_CHOICE = Rule(
    "mindspeed_group_choice",
    "[mindspeed-llm, moe_router.py, router.py]",
    Sentence("groups of experts chosen by their best expert need group_topk below ep, and micro_batch_size 1"),
    lambda w, b: (
        (b.ep <= w.model.moe.group_topk) | (b.micro_batch_size > 1) if w.model.moe is not None and _by_best(w) else none_of(b)
    ),
    lambda w, s: Sentence(
        "group_limited_greedy, which chooses groups of experts by their best, needs group_topk "
        "{} below ep {}, and micro_batch_size 1 (it is {})",
        w.model.moe.group_topk if w.model.moe else 0,
        s.ep,
        s.micro_batch_size,
    ),
)

WINDOW = Rule(
    "mindspeed_window",
    "[mindspeed-llm, context_parallel_feature.py]",
    Sentence("a window of attention below the sequence excludes context parallelism"),
    lambda w, b: (b.cp > 1) & (w.model.local_attention is not None and w.training.seq_length > w.model.local_attention.window),
    lambda w, s: Sentence(
        "a window of {} tokens in sequences of {} excludes cp {}",
        w.model.local_attention.window if w.model.local_attention else 0,
        w.training.seq_length,
        s.cp,
    ),
)

TP_EXTEND_EP = FACTS(
    "mindspeed_tp_extend_ep",
    Sentence("moe_tp_extend_ep needs alltoall, etp 1, ep a multiple of tp, moe_grouped_gemm, and no capacity factor"),
    extra=Extra(  # written, it has other degrees and another dispatcher than the plan
        lambda w, b: (b.dispatcher != Dispatcher.ALLTOALL) | (b.etp != 1) | (b.ep % b.tp != 0),
        lambda w, s: Sentence(
            "needs ep a multiple of tp, etp 1 and moe_dispatcher alltoall (they are {} over tp {}, etp {} and {})",
            s.ep,
            s.tp,
            s.etp,
            s.dispatcher.label,
        ),
    ),
)

ALLGATHER_OVERLAP = FACTS(
    "mindspeed_allgather_overlap", Sentence("moe_allgather_overlap_comm needs the allgather dispatcher and moe_grouped_gemm")
)

ALLTOALL_OVERLAP = FACTS(
    "mindspeed_alltoall_overlap",
    Sentence(
        "moe_alltoall_overlap_comm needs the alltoall dispatcher, moe_grouped_gemm and ep above 1 (above tp "
        "beside moe_tp_extend_ep)"
    ),
    extra=Extra(  # with moe_tp_extend_ep the framework counts the expert ranks outside tp
        lambda w, b: b.ep <= np.where(has_effect(w, b, Feature.MOE_TP_EXTEND_EP), b.tp, 1),
        lambda w, s: Sentence(
            "needs ep above {} (it is {})",
            Sentence("tp {} beside moe_tp_extend_ep", s.tp) if Feature.MOE_TP_EXTEND_EP in s.features else 1,
            s.ep,
        ),
    ),
)


def _no_pairs_sentence(workload: Workload, strategy: ParallelStrategy) -> Sentence:
    """Why a schedule merges no passes. That of virtual stages runs pairs only where sends overlap [mindspeed-fb-overlap]."""
    if not strategy.schedule.rules.in_groups:
        return Sentence(
            "runs without a pipeline, with virtual stages or with dualpipev (schedule is {})", strategy.schedule.label
        )
    if Feature.OVERLAP_P2P not in strategy.features:
        return Sentence("needs overlap_p2p with virtual stages")
    return Sentence(
        "needs num_microbatches of at least 2 x pp = {} with virtual stages (they are {})",
        2 * strategy.pp,
        num_microbatches(workload, strategy),
    )


FB_OVERLAP = FACTS(
    "mindspeed_fb_overlap",
    Sentence(
        "moe_comm_overlap (moe-fb-overlap) needs ep above 1, etp 1, alltoall and moe_grouped_gemm, runs without a pipeline, with "
        "virtual stages (two rounds of micro batches) or with dualpipev, and excludes overlap_grad_reduce, "
        "moe_alltoall_overlap_comm, swap_attention, moe_tp_extend_ep and norms behind attention and MLP"
    ),
    extra=Extra(
        lambda w, b: (
            PAIRS_WAIT[b.schedule]
            | (
                IN_GROUPS[b.schedule]
                & ((b.num_microbatches(w.training.global_batch_size) < 2 * b.pp) | ~b.has(Feature.OVERLAP_P2P))
            )
        ),
        _no_pairs_sentence,
    ),
)


DUALPIPEV = FACTS("mindspeed_dualpipev", Sentence("dualpipev comes with moe_comm_overlap, cp 1 and embeddings that are not tied"))


def _starts_early(layout: LayerLayout, _before_head: int, _model: ModelShape) -> bool:
    """Whether MindSpeed's validator refuses the no-op layers.

    It compares one element of a set of positions with the last virtual stage's: the one that Python iterates first, which need
    not be the smallest. Shipped scripts pass with no-op layers in the middle.
    """
    noops = noop_positions(layout, vee=False)
    slots = max(map(max, layout))
    return bool(noops) and next(iter(set(noops))) < slots * (len(layout) * len(layout[0]) - 1)


def _unfilled(layout: LayerLayout, before_head: int, model: ModelShape) -> bool:
    return not MERGED_CHUNKS.expressible(layout, before_head, model)


def _merges_chunks(workload: Workload, batch: StrategyBatch) -> Mask:
    if workload.model.moe is None or not batch.has(Feature.MOE_COMM_OVERLAP).any():
        return none_of(batch)
    mask: Mask = IN_GROUPS[batch.schedule] & has_effect(workload, batch, Feature.MOE_COMM_OVERLAP)
    return mask


def _merging(forbids: Callable[[LayerLayout, int, ModelShape], bool]) -> Callable[[Workload, StrategyBatch], Mask]:
    """Rows with merged passes and virtual stages whose layout is rejected."""

    def rows(workload: Workload, batch: StrategyBatch) -> Mask:
        merges = _merges_chunks(workload, batch)
        return merges & layout_violates(workload, batch, forbids) if merges.any() else merges

    return rows


FB_NOOP = SwitchRule(
    "mindspeed_fb_noop",
    "[mindspeed, fb_overlap.py]",
    Sentence(
        "with moe_comm_overlap and interleaved virtual stages, the no-op layer that MindSpeed looks at, the first of a set, sits "
        "on the last virtual stage"
    ),
    _merging(_starts_early),
    lambda w, s: Sentence(
        "moe_comm_overlap with vpp {} takes no-op layers on the last virtual stage only, and {} layers "
        "over pp {} leave them at positions {}",
        s.vpp,
        w.model.num_layers,
        s.pp,
        joined(", ", map(str, noop_positions(layout_of(w, s), vee=s.schedule.rules.is_vee))),
    ),
    subject=Feature.MOE_COMM_OVERLAP,
    reason=lambda w, s: Sentence("it takes no-op layers on the last virtual stage only"),
    reads_placement=True,
)
NOOP_IN_THE_MIDDLE = Caution(
    Feature.MOE_COMM_OVERLAP,
    lambda w, b: _merging(_unfilled)(w, b) & ~_merging(_starts_early)(w, b),
    Sentence(
        "moe_comm_overlap with no-op layers before the last virtual stage: MindSpeed means to refuse it, but its validator looks "
        "at one element of a set and takes it"
    ),
    "[mindspeed, fb_overlap.py]",
)
CAUTIONS = (COC_BESIDE_EXPERTS, NOOP_IN_THE_MIDDLE)

ZERO_MEMORY = FACTS(
    "mindspeed_zero_memory",
    Sentence("moe_zero_memory needs moe_alltoall_overlap_comm or moe_comm_overlap, and excludes full recompute"),
)

BY_SWITCH = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT

RECOMPUTE_MIX = FACTS(
    "mindspeed_recompute_mix",
    Sentence(
        "full recompute is joined by layernorm, mlp_act and mla_up_proj only, which have switches of their "
        "own, and core_attn, mlp "
        "and moe exclude layernorm and mlp_act"
    ),
    extra=Extra(lambda w, b: b.recompute == Recompute.FULL, lambda w, s: Sentence("excludes full recompute")),
    sentence=lambda w, s: (
        Sentence(
            "full recompute together with {}: MindSpeed-LLM takes one granularity", module_names(s.recompute_modules & BY_LAYER)
        )
        if s.recompute == Recompute.FULL
        else Sentence(
            "recompute of {} together with {}: MindSpeed-LLM takes modules or its switches, not both",
            module_names(s.recompute_modules & BY_LAYER),
            module_names(s.recompute_modules & BY_SWITCH),
        )
    ),
)


def _uneven_plan(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.recompute_plan_index >= 0
    if not given.any():
        return given
    uneven = np.array([len(set(plan)) > 1 for plan in batch.recompute_plans], dtype=np.bool_)
    mask: Mask = given & (
        uneven[batch.recompute_plan_index] | (batch.recompute_method == RecomputeMethod.UNIFORM) | HAS_METHOD[batch.schedule]
    )
    return mask


RECOMPUTE_PLAN = Rule(
    "mindspeed_recompute_plan",
    "[mindspeed, enable_recompute_layers_per_pp_rank.py]",
    Sentence("recompute layers_per_stage is the same number for every pipeline rank, by method block, and not with dualpipev"),
    _uneven_plan,
    lambda w, s: Sentence(
        "recompute layers_per_stage goes from {} to "
        "{} with method {} and schedule {}: "
        "MindSpeed-LLM takes one number for all pipeline ranks, with method block, and for each chunk with dualpipev",
        min(s.recompute_layers_per_stage or (0,)),
        max(s.recompute_layers_per_stage or (0,)),
        s.recompute_method.label,
        s.schedule.label,
    ),
)

SWAP_OPTIMIZER = FACTS("mindspeed_swap_optimizer", Sentence("swap_optimizer swaps the distributed optimizer: zero_stage 1"))

RULES = (*LAYER_RULES, *FAMILY_RULES, *TASK_RULES, *rules_in(globals()), *SPARSE_RULES)

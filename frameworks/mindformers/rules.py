"""Rules of MindFormers on MindSpore (graph mode, ``use_legacy: False``), releases 1.5 to 1.8.

A combination is rejected unless a source of the framework shows that it works.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import dropped, tensor_names
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence, joined
from frameworks.facts import fact_rule
from frameworks.fixed import Fixed
from frameworks.mindformers import adapters
from frameworks.mindformers.fine_tuning import TASKS
from frameworks.mindformers.models import class_of, untrained
from frameworks.mindformers.selection import is_selected
from frameworks.mindformers.table import BY_NAME, RELEASE, TABLE, TERMS
from frameworks.offer_rules import (
    dispatcher_rule,
    offered_rule,
    optimizer_rule,
    precision_rule,
    schedule_rule,
    task_rule,
    two_norms_rule,
)
from frameworks.physics.memory import module_names
from frameworks.placements import Placements, placement_rule
from frameworks.rule import Mask, Rule, every_row, has_effect, none_of, num_microbatches, rules_in

FACTS = partial(fact_rule, RELEASE, TERMS)
NAME = "MindFormers"

TASK = task_rule("mindformers_task", "[mindformers-1.8, run_mindformer.py]", NAME, *TASKS)

PRECISION = precision_rule("mindformers_precision", "[mindformers-1.8, config_args.py]", NAME, "bf16", "fp16", "fp32")
OPTIMIZERS = ("adam",)
OPTIMIZER = optimizer_rule("mindformers_optimizer", "[mindformers-1.8, adamw.py]", NAME, *OPTIMIZERS)
MODEL = Rule(
    "mindformers_model",
    "[mindformers-1.8, models; mindformers-1.8, gpt_layer_specs.py]",
    Sentence("the release has a training class that builds the model, or the job is that of a file for legacy layers"),
    lambda w, b: every_row(b, class_of(w.model) is None and not w.software.legacy_layers),
    lambda w, s: untrained(w.model),
    job_only=True,
)
SANDWICH_NORM = two_norms_rule(
    "mindformers_sandwich_norm",
    "[mindformers-1.8, training_graph/transformer/transformer_layer.py]",
    Sentence("that MindFormers trains"),
)
MTP = FACTS(
    "mindformers_mtp",
    Sentence("there is at most one multi-token-prediction layer"),
    sentence=lambda w, s: Sentence("mtp_num_layers is {}, and MindFormers takes 0 or 1", w.model.mtp_num_layers),
)

FEATURES = offered_rule(
    "mindformers_features",
    "[mindformers-1.8, config_args.py]",
    NAME,
    TABLE,
    also=lambda w: Feature.REPLICATED_EMBEDDING if w.software.legacy_layers else Feature(0),  # vocab_emb_dp
)
SCHEDULE = schedule_rule("mindformers_schedule", "[mindformers-1.8, config_args.py]", NAME, TABLE)

_IS_VEE = TABLE.schedules_with(lambda rules: rules.is_vee)

ZBV = Rule(
    "mindformers_zbv",
    "[mindspore, pipeline_transformer.cc; mindformers-1.8, training_graph/transformer/utils.py]",
    Sentence("zbv (zero_bubble_v) takes at least 2 pp micro batches, and recompute by virtual stage, not layers_per_stage"),
    lambda w, b: (
        _IS_VEE[b.schedule]
        & (b.pp > 1)
        & ((b.num_microbatches(w.training.global_batch_size) < 2 * b.pp) | (b.recompute_plan_index >= 0))
    ),
    lambda w, s: Sentence(
        "zbv over pp {} takes at least {} micro batches in MindSpore (there are {}), and no recompute layers_per_stage",
        s.pp,
        2 * s.pp,
        num_microbatches(w, s),
    ),
)

GROUP_SIZE = Rule(
    "mindformers_group_size",
    "[mindformers-1.8, config_args.py; mindformers-1.8, Parallel configuration]",
    Sentence("an interleaved chunk takes pp micro batches in turn"),
    lambda w, b: (b.microbatch_group_size_per_vp_stage != 0) & (b.microbatch_group_size_per_vp_stage != b.pp),
    lambda w, s: Sentence(
        "microbatch_group_size_per_vp_stage {}: MindFormers has no such setting, and an "
        "interleaved chunk takes pp {} micro batches in turn",
        s.microbatch_group_size_per_vp_stage,
        s.pp,
    ),
)

SWAP_OPTIMIZER = Rule(
    "mindformers_swap_optimizer",
    "[mindformers-1.8, adamw.py]",
    Sentence("swap_optimizer moves Adam moments alone to the host, so that parameters must be FP32, without master copies"),
    lambda w, b: none_of(b) if w.software.fp32_parameters else b.has(Feature.SWAP_OPTIMIZER),
    lambda w, s: Sentence(
        "swap_optimizer moves master weights and moments to the host; MindFormers' AdamW (swap: True) moves the moments alone, "
        "which is the same with fp32_parameters only"
    ),
)

ZERO_STAGE = Rule(
    "mindformers_zero_stage",
    "[mindformers-1.8, config_args.py; mindformers-1.8, Parallel configuration]",
    Sentence("zero_stage is 0, 1 (enable_parallel_optimizer) or 2 (gradient_accumulation_shard)"),
    lambda w, b: b.zero_stage > 2,
    lambda w, s: Sentence(
        "zero_stage {}: MindFormers has no switch that gathers weights again in the backward pass", s.zero_stage
    ),
)

HALVES = Rule(
    "mindformers_halves",
    "[mindformers-1.8, base_trainer.py; mindformers-1.8, Parallel configuration]",
    Sentence("fine_grain_interleave is micro_batch_interleave_num 2, which cuts samples: micro_batch_size is even"),
    lambda w, b: has_effect(w, b, Feature.FINE_GRAIN_INTERLEAVE) & (b.micro_batch_size % 2 != 0) & (not w.software.legacy_layers),
    lambda w, s: Sentence(
        "micro_batch_size is {}, and the layers of this release are cut in two by samples "
        "(micro_batch_interleave_num), not by tokens",
        s.micro_batch_size,
    ),
)

PLACEMENTS = Placements(fewest=1)  # the graph is cut by the stage number of each layer, and no source shows a stage without
STAGES = placement_rule("mindformers_stages", "[mindformers-1.8, training_graph/transformer/utils.py]", NAME, PLACEMENTS)

SEQUENCE_PARALLEL_FOR_EXPERTS = FACTS(
    "mindformers_experts_need_sequence_parallel", Sentence("a model with experts and tp above 1 needs sequence parallelism")
)

EXPERT_TENSOR_PARALLEL = Rule(
    "mindformers_expert_tensor_parallel",
    "[mindformers-1.8, training_graph/transformer/moe/ffn.py]",
    Sentence("etp is 1: the weights of an expert are not split"),
    lambda w, b: b.etp > 1,
    lambda w, s: Sentence("etp {}: MindFormers splits experts over ep ranks (here {}), not an expert over ranks", s.etp, s.ep),
)

EXPERT_WORLD = Rule(
    "mindformers_expert_world",
    "[mindformers-1.8, moev3.py; hyper-parallel, fast-tuner]",
    Sentence("expert ranks come from dp and tp, not from cp: etp x ep divides dp x tp"),
    lambda w, b: (b.dp * b.tp) % (b.ep * b.etp) != 0,
    lambda w, s: Sentence(
        "etp {} x ep {} = {} does not divide dp {} x tp {} = {}", s.etp, s.ep, s.etp * s.ep, s.dp, s.tp, s.dp * s.tp
    ),
)

DISPATCHER = dispatcher_rule(
    "mindformers_dispatcher",
    "[mindformers-1.8, training_graph/transformer/moe/token_dispatcher.py]",
    NAME,
    TABLE,
    Sentence(
        "experts are reached by alltoall, or by hierarchical (alltoall_deredundency: an all-gather between nodes, then an "
        "all-to-all inside)"
    ),
)


DEREDUNDENCY = Rule(
    "mindformers_deredundency",
    "[mindformers-1.8, transformer_config.py; mindformers-1.8, training_graph/transformer/moe/token_dispatcher.py]",
    Sentence("with the hierarchical dispatcher (alltoall_deredundency) the devices of a node divide ep"),
    lambda w, b: (
        (b.dispatcher == Dispatcher.HIERARCHICAL) & (b.ep * b.etp > 1) & (b.ep % w.cluster.profile.devices_per_node != 0)
    ),
    lambda w, s: Sentence(
        "hierarchical dispatch over ep {}: it takes a multiple of the {} devices of a node",
        s.ep,
        w.cluster.profile.devices_per_node,
    ),
)

CONTEXT_PARALLEL = Rule(
    "mindformers_context_parallel",
    "[mindformers-1.8, transformer_config_utils.py; mindformers-1.8, training_graph/transformer/flash_attention.py]",
    Sentence("context parallelism is kv_allgather (colossalai_cp), ring (with use_ring_attention) or ulysses"),
    lambda w, b: (b.cp > 1) & (b.cp_algo == CpAlgo.HYBRID),
    lambda w, s: Sentence("{} over cp {}: its layers take colossalai_cp or ulysses_cp", s.cp_algo.label, s.cp),
)


def _norms_are_fused(model: ModelShape) -> bool:
    """Whether the layers have fused norms alone: only get_gpt_decoder_block_spec reads fused_norm."""
    return model.mla is None or model.moe is None


_BY_ITSELF = Sentence("the compiled graph overlaps it by itself")
# Kernels that the layers reject [mindformers-1.8, transformer_config.py] or always use [mindformers-1.8, gpt_layer_specs.py].
FIXED = (
    Fixed(
        Feature.FUSED_ROPE,
        lambda w, b: every_row(b, w.model.mla is not None or w.software.legacy_layers),
        Sentence("MindFormers has no fused rotary embedding for latent attention, and no switch for it in legacy layers"),
    ),
    Fixed(
        Feature.FUSED_SWIGLU,
        lambda w, b: every_row(b, w.software.legacy_layers),
        Sentence("legacy layers of MindFormers have no switch for it"),
    ),
    Fixed(Feature.FLASH_ATTENTION, lambda w, b: every_row(b, True), Sentence("the layers have no other attention"), on=True),
    Fixed(
        Feature.FUSED_NORM,
        lambda w, b: every_row(b, _norms_are_fused(w.model)),
        Sentence("the layers have no other norms"),
        on=True,
    ),
    Fixed(Feature.OVERLAP_P2P, lambda w, b: every_row(b, True), _BY_ITSELF, on=True),
    Fixed(Feature.OVERLAP_GRAD_REDUCE, lambda w, b: every_row(b, True), _BY_ITSELF, on=True),
    Fixed(Feature.OVERLAP_PARAM_GATHER, lambda w, b: b.zero_stage > 0, _BY_ITSELF, on=True),
)


def selectable(model: ModelShape) -> RecomputeModule:
    """Modules whose cells have names that ``select_recompute`` can match, equal in all layers.

    Routed experts run inside one operator (Morph), whose parts have no names.
    """
    return BY_NAME if model.moe is None else RecomputeModule.LAYERNORM


SELECT_RECOMPUTE = Rule(
    "mindformers_select_recompute",
    "[mindformers-1.8, training_graph/transformer/utils.py; mindformers-1.8, training_graph/transformer/moe/ffn.py]",
    Sentence("recompute by module takes layernorm, and in models without experts mlp_act and mlp"),
    lambda w, b: (b.recompute_modules & ~int(selectable(w.model))) != 0,
    lambda w, s: Sentence(
        "recompute of {} in {}: select_recompute goes by the names of cells, which are known for {} alone",
        module_names(s.recompute_modules & ~selectable(w.model)),
        w.model.name,
        module_names(selectable(w.model)),
    ),
)


RECOMPUTE_GROUPS = Rule(
    "mindformers_recompute_groups",
    "[mindformers-1.8, training_graph/transformer/utils.py]",
    Sentence("full recompute by method uniform has a checkpoint for each layer: num_layers is 1"),
    lambda w, b: (
        (b.recompute == Recompute.FULL)
        & (b.recompute_plan_index < 0)
        & (b.recompute_method == RecomputeMethod.UNIFORM)
        & (b.recompute_num_layers > 1)
    ),
    lambda w, s: Sentence("full recompute in groups of {} layers: MindFormers recomputes layer by layer", s.recompute_num_layers),
)


def _unnamed_tensors(workload: Workload, batch: StrategyBatch) -> Mask:
    taken = np.array([is_selected(plan) and workload.model.moe is None for plan in batch.tensor_plans] + [True])
    mask: Mask = ~taken[batch.tensor_plan_index]
    return mask


TENSOR_PLAN = Rule(
    "mindformers_tensor_plan",
    "[mindformers-1.8, training_graph/transformer/utils.py]",
    Sentence("recompute goes by module; without experts also by the first layers of each virtual stage, and by gathered inputs"),
    _unnamed_tensors,
    lambda w, s: Sentence(
        "tensor_plan drops {} by virtual stage: MindFormers has modules, and in models without experts the first layers of each "
        "stage and gathered_input",
        joined(", ", (name for tensors in dropped(s.tensor_plan or ()) for name in tensor_names(tensors))),
    ),
)

RULES = (*rules_in(globals()), *adapters.RULES)

"""The nearest strategy that a release of Megatron-LM can express, if it cannot express the planned one.

The release's table and rules say what it supports; this module says what to write instead. If a plan breaks no rule of the
framework, only switches that the framework sets by itself change.
"""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.layout import layer_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.draft import Draft
from frameworks.megatron_lm import bridge_rules, rules_0_12
from frameworks.megatron_lm.dialect import Dialect
from frameworks.megatron_lm.rules_0_19 import DELAYED
from frameworks.placements import Placements
from frameworks.rule import layout_of


def nearest(dialect: Dialect, workload: Workload, strategy: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
    """The nearest strategy that the release can express, and a sentence for each replaced setting."""
    draft = Draft(workload, strategy)
    draft.offered(dialect.table, dialect.name)
    draft.sequence_parallel(rules_0_12.SEQUENCE_PARALLEL_FOR_EXPERTS, "Megatron-LM")
    here = set(dialect.table.dispatchers)
    if dialect.broken(draft, "megatron_deepep_devices"):
        here.remove(Dispatcher.TWO_LEVEL)
    draft.dispatcher(here, dialect.name)
    if dialect.broken(draft, "megatron_deepep_capacity"):
        draft.drop(Feature.MOE_PAD_TO_CAPACITY, Sentence("DeepEP takes no padding to capacity"))
    dialect.drop_broken(draft, "megatron_shared_expert_overlap", "megatron_grouped_gemm_precision", "megatron_tp_comm_overlap")
    _context_parallel(dialect, draft)
    _packed_samples(dialect, draft)
    _optimizer(dialect, draft)
    draft.fix(dialect.fixed)
    _recompute(dialect, draft)
    _layout(dialect, draft)
    dialect.drop_broken(draft, "megatron_ep_overlap")
    if dialect.broken(draft, "megatron_p2p_overlap"):
        draft.add(Feature.OVERLAP_P2P, Sentence("virtual stages over pp 2 need it"))
    dialect.drop_broken(draft, "megatron_cuda_graph", *(rule.name for rule in bridge_rules.SWITCHES))
    return draft.finish()


def _context_parallel(dialect: Dialect, draft: Draft) -> None:
    planned = draft.strategy.cp_algo.label
    if dialect.broken(draft, "megatron_cp_attention"):
        draft.add(Feature.FLASH_ATTENTION, Sentence("Transformer Engine has no other attention over several ranks"))
    for rule, why in (
        ("megatron_ulysses_query_groups", Sentence("Transformer Engine repeats no query groups")),
        ("megatron_ulysses_latent", Sentence("Transformer Engine before 2.15 takes no latent attention there")),
        ("megatron_sft_context", Sentence("not every Transformer Engine takes packed samples there")),
    ):
        if dialect.broken(draft, rule):
            draft.set("cp_algo", planned, CpAlgo.RING.label, why, cp_algo=CpAlgo.RING, ulysses_degree=1)


def _packed_samples(dialect: Dialect, draft: Draft) -> None:
    if dialect.broken(draft, "megatron_sft_attention"):
        draft.add(Feature.FLASH_ATTENTION, Sentence("no other attention takes packed samples"))
    if dialect.broken(draft, "megatron_sft_micro_batch"):
        why = Sentence("over pp, packed samples run one sequence a micro batch")
        draft.set("micro_batch_size", draft.strategy.micro_batch_size, 1, why, micro_batch_size=1)
    dialect.drop_broken(draft, "megatron_sft_overlap", "megatron_sft_graphs")


def _optimizer(dialect: Dialect, draft: Draft) -> None:
    if dialect.broken(draft, "megatron_zero_pipeline"):
        draft.zero_stage(1, Sentence("Megatron-LM shards gradients and weights without a pipeline only"))
    if dialect.broken(draft, "megatron_fsdp_eight_bits"):
        draft.set("zero_stage", 2, 3, Sentence("Megatron-FSDP casts sharded weights alone"), zero_stage=3)
    if draft.strategy.zero_stage < 3:  # fully sharded data parallelism overlaps by itself
        dialect.drop_broken(draft, "megatron_param_gather")
    dialect.drop_broken(draft, "megatron_host_optimizer")
    if dialect.broken(draft, "megatron_zero_shard"):
        draft.set(
            "optimizer_shard_size",
            draft.strategy.optimizer_shard_size,
            Sentence("all data-parallel ranks"),
            Sentence("{} has no such groups", dialect.name),
            optimizer_shard_size=0,
        )


def _recompute(dialect: Dialect, draft: Draft) -> None:
    if any(dialect.broken(draft, rule) for rule in ("megatron_tensor_plan", "megatron_offload")):
        draft.modules_for_tensors("Megatron-LM")
    s = draft.strategy
    if s.recompute is Recompute.FULL:
        draft.drop_modules(s.recompute_modules, Sentence("Megatron-LM takes one granularity"))
        if s.recompute_layers_per_stage is not None:
            draft.one_number_of_recompute(Sentence("Megatron-LM takes one number for all stages"))
        elif s.recompute_method is RecomputeMethod.NONE or s.recompute_num_layers < 1:
            draft.strategy = replace(draft.strategy, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
        return
    draft.recompute_by_module()
    if dialect.broken(draft, "megatron_fp8_recompute"):
        draft.drop_modules(DELAYED, Sentence("the scaling of fp8 is delayed"))
    if dialect.broken(draft, "megatron_activation_recompute"):
        draft.drop_modules(
            RecomputeModule.MLP_ACT, Sentence("Megatron-LM recomputes activations of experts with moe_grouped_gemm only")
        )
    if draft.workload.model.mla is None:
        draft.drop_modules(RecomputeModule.MLA_UP_PROJ, Sentence("the model has no latent attention"))


def _layout(dialect: Dialect, draft: Draft) -> None:
    s, model = draft.strategy, draft.workload.model
    placements = dialect.placements
    draft.placed(placements, dialect.name)
    layout = layout_of(draft.workload, draft.strategy)
    if placements.expressible(layout, draft.strategy.mtp_before_head, model):
        return
    for vpp in (s.vpp, 1):
        buildable = evenest(placements, model.num_layers, s.pp, vpp)
        if buildable is not None:
            break
    else:
        return
    if vpp != s.vpp:
        why = Sentence("{} layers cannot be cut into equal chunks on pp {}", model.num_layers, s.pp)
        flat = {"schedule": canonical_schedule(s.pp, vpp), "microbatch_group_size_per_vp_stage": 0}
        draft.set("vpp", s.vpp, vpp, why, vpp=vpp, features=draft.features & ~Feature.OVERLAP_P2P, **flat)
    default = layer_layout(model.num_layers, s.pp, vpp)
    draft.set(
        "layer_layout",
        Sentence("of the plan"),
        Sentence("{} layers a rank", joined(", ", (str(sum(row[i] for row in buildable)) for i in range(s.pp)))),
        Sentence(
            "{} needs equal middle ranks and equal chunks on a rank, or one layer fewer at an end of the model", dialect.name
        ),
        layer_layout=None if buildable == default else buildable,
    )


def evenest(placements: Placements, num_layers: int, pp: int, vpp: int) -> LayerLayout | None:
    """The most even layout that a release can build with a layer on each virtual stage; ``None`` without one."""

    def key(layout: LayerLayout) -> tuple[int, int, int, LayerLayout]:
        ranks = [sum(chunks) for chunks in zip(*layout, strict=True)]
        return max(ranks), max(ranks) - min(ranks), ranks[-1], layout

    return min((each for each in placements.shapes(num_layers, pp, vpp) if min(map(min, each))), key=key, default=None)

"""Rules on the pipeline: layers of stages, and the order of micro batches."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.canonical import group_size, schedules_of
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, Schedule, StrategyBatch, by_schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload
from documents.sentences import Sentence, joined
from frameworks.rule import Mask, Rule, either, has_effect, layout_of, layout_violates, most_stages, num_microbatches, up_to

VPP_NEEDS_PP = Rule(
    "vpp_needs_pp",
    "[megatron-0.12, arguments.py]",
    Sentence("virtual stages need a pipeline: vpp above 1 only with pp above 1"),
    lambda w, b: (b.vpp > 1) & (b.pp == 1),
    lambda w, s: Sentence("vpp {} needs pp above 1, and pp is {}", s.vpp, s.pp),
    layout_only=True,
)

_ENDS_MEET = by_schedule(lambda rules: rules.ends_meet)
_RUNNABLE = np.array([[schedule.rules.runs(2, vpp) for schedule in Schedule] for vpp in (1, 2, 3)])  # [vpp - 1, schedule]
IN_GROUPS = by_schedule(lambda rules: rules.in_groups)
PAIRS_WAIT = by_schedule(lambda rules: rules.pairs is not None and rules.pairs.wait)
_RUNS_PAIRS_APART = by_schedule(lambda rules: rules.pairs is None) | PAIRS_WAIT


def _schedule(workload: Workload, batch: StrategyBatch) -> Mask:
    runnable = _RUNNABLE.ravel()[(np.minimum(batch.vpp, 3) - 1) * len(Schedule) + batch.schedule]
    # Streams turn or meet on another rank. Without a pipeline no other schedule has an effect.
    mask: Mask = np.where(batch.pp > 1, ~runnable, (batch.vpp > 1) | _ENDS_MEET[batch.schedule])
    return mask


def _schedule_sentence(workload: Workload, s: ParallelStrategy) -> str:
    runs = either([schedule.label for schedule in schedules_of(s.pp, s.vpp)])
    return Sentence("schedule {} with pp {} and vpp {}: such a pipeline runs {}", s.schedule.label, s.pp, s.vpp, runs)


SCHEDULE = Rule(
    "schedule",
    "[megatron-0.12, schedules.py; zero-bubble, section 6; dualpipe]",
    Sentence(
        "interleaved-1f1b needs vpp above 1, zbv and dualpipev vpp 2, the others vpp 1; zbv, dualpipe and "
        "dualpipev need pp above 1"
    ),
    _schedule,
    _schedule_sentence,
)

LAYERS_PER_STAGE = Rule(
    "layers_per_stage",
    "[megatron-0.12, transformer_config.py; mindspeed, noop_layers.py]",
    Sentence(
        "every virtual stage holds a layer, but those of the embedding and the loss may hold none: pp x vpp is at most two more "
        "than the layers (a rest is filled with no-op layers)"
    ),
    lambda w, b: (b.layout_index < 0) & (b.pp * b.vpp > most_stages(w.model, b)),
    lambda w, s: Sentence(
        "pp {} x vpp {} = {} virtual stages, but {} has {} layers", s.pp, s.vpp, s.pp * s.vpp, w.model.name, w.model.num_layers
    ),
    layout_only=True,
)


def _layer_layout(workload: Workload, batch: StrategyBatch) -> Mask:
    given: Mask = batch.layout_index >= 0
    if not given.any():
        return given
    shapes = [
        (len(layout), len(layout[0]) if layout and len({len(row) for row in layout}) == 1 else 0, sum(map(sum, layout)))
        if all(count >= 0 for row in layout for count in row)
        else (0, 0, 0)
        for layout in batch.layouts
    ]
    chunks, stages, layers = np.array(shapes, dtype=np.int64).T[:, batch.layout_index]
    mask: Mask = given & ((chunks != batch.vpp) | (stages != batch.pp) | (layers != workload.model.num_layers))
    return mask


def _layer_layout_sentence(workload: Workload, s: ParallelStrategy) -> str:
    layout = s.layer_layout or ()
    lengths = sorted({len(row) for row in layout})
    return Sentence(
        "layer_layout has {} chunks of {} stages and {} layers; vpp {}, pp {} and {} layers are needed",
        len(layout),
        joined(" or ", map(str, lengths)) or 0,
        sum(map(sum, layout)),
        s.vpp,
        s.pp,
        workload.model.num_layers,
    )


def _mtp_behind_layers(layout: LayerLayout, before_head: int, _model: ModelShape) -> bool:
    counts = [layers for row in layout for layers in row]
    return before_head >= len(counts) or any(counts[len(counts) - before_head :])


def _mtp_stage(workload: Workload, batch: StrategyBatch) -> Mask:
    moved: Mask = batch.mtp_before_head != 0
    if not moved.any():
        return moved
    nowhere = (batch.mtp_before_head < 0) | (batch.mtp_before_head >= batch.pp * batch.vpp)
    if not workload.model.mtp_num_layers:
        return moved
    return moved & (nowhere | layout_violates(workload, batch, _mtp_behind_layers))


def _mtp_stage_sentence(workload: Workload, s: ParallelStrategy) -> str:
    model, stages = workload.model, s.pp * s.vpp
    if not model.mtp_num_layers:
        return Sentence("mtp_before_head {}: {} has no multi-token-prediction layers", s.mtp_before_head, model.name)
    if not 0 <= s.mtp_before_head < stages:
        return Sentence(
            "mtp_before_head {}: pp {} x vpp {} = {} virtual stages leave {}",
            s.mtp_before_head,
            s.pp,
            s.vpp,
            stages,
            up_to(stages - 1),
        )
    counts = [layers for row in layout_of(workload, s) for layers in row]
    return Sentence(
        "mtp_before_head {} puts the multi-token-prediction layers on virtual stage {} of {}, and {} layers lie behind it",
        s.mtp_before_head,
        stages - s.mtp_before_head,
        stages,
        sum(counts[stages - s.mtp_before_head :]),
    )


MTP_STAGE = Rule(
    "mtp_stage",
    "[deepseek-v3, section 2.2; megatron-0.19, pipeline_parallel_layer_layout.py]",
    Sentence("multi-token-prediction layers run where the last layer does or behind it, and not behind the head"),
    _mtp_stage,
    _mtp_stage_sentence,
    reads_placement=True,
)

LAYER_LAYOUT = Rule(
    "layer_layout",
    "[megatron-main, pipeline_parallel_layer_layout.py]",
    Sentence("a given layer_layout has vpp chunks of pp stages and places every layer once"),
    _layer_layout,
    _layer_layout_sentence,
    reads_placement=True,
)


INTERLEAVED_FILL = Rule(
    "interleaved_fill",
    "[megatron-0.12, schedules.py]",
    Sentence("interleaved virtual stages need a full group: num_microbatches is at least pp"),
    lambda w, b: IN_GROUPS[b.schedule] & (b.num_microbatches(w.training.global_batch_size) < b.pp),
    lambda w, s: Sentence(
        "vpp {} needs num_microbatches of at least pp {}, and there are {}", s.vpp, s.pp, num_microbatches(w, s)
    ),
    layout_only=True,
)

INTERLEAVED_GROUP = Rule(
    "interleaved_group",
    "[megatron-0.12, schedules.py]",
    Sentence("microbatch_group_size_per_vp_stage goes from pp to num_microbatches, and with interleaved-1f1b only"),
    lambda w, b: np.where(
        IN_GROUPS[b.schedule],
        (b.group_size < b.pp) | (b.group_size > b.num_microbatches(w.training.global_batch_size)),
        b.microbatch_group_size_per_vp_stage != 0,
    ),
    lambda w, s: Sentence(
        "microbatch_group_size_per_vp_stage {} with schedule {}: it goes with interleaved-1f1b, "
        "from pp {} to num_microbatches {}",
        group_size(s),
        s.schedule.label,
        s.pp,
        num_microbatches(w, s),
    ),
    layout_only=True,
)


def _incomplete_group(workload: Workload, batch: StrategyBatch) -> Mask:
    rest = batch.num_microbatches(workload.training.global_batch_size) % np.maximum(batch.group_size, 1)
    mask: Mask = IN_GROUPS[batch.schedule] & (rest > 0) & (rest < batch.pp)
    return mask


INTERLEAVED_MICROBATCHES = Rule(
    "interleaved_microbatches",
    "[megatron-0.12, schedules.py]",
    Sentence(
        "interleaved virtual stages take micro batches in groups, by default of pp: num_microbatches is a multiple of that, or "
        "leaves a last group of at least pp"
    ),
    _incomplete_group,
    lambda w, s: Sentence(
        "vpp {} takes micro batches in groups of {}, and num_microbatches {} = "
        "{} / ({} x {}) leaves {}: "
        "0 or at least pp {} must be left",
        s.vpp,
        group_size(s),
        num_microbatches(w, s),
        w.training.global_batch_size,
        s.micro_batch_size,
        s.dp,
        num_microbatches(w, s) % group_size(s),
        s.pp,
    ),
    layout_only=True,
)


_FEWEST_BY_PP, _FEWEST_MORE = np.array([schedule.rules.fewest_microbatches for schedule in Schedule]).T
# Any number above 0 fills these, and schedules with groups have their own rule.
_FILLED = (_FEWEST_BY_PP == 0) | IN_GROUPS

SCHEDULE_FILL = Rule(
    "schedule_fill",
    "[zero-bubble, section 2; mindspeed, dualpipev_feature.py; dualpipe, dualpipe.py]",
    Sentence("num_microbatches fills the schedule: zb1p takes pp at least, zb2p, zbv and dualpipev 2 pp - 1, dualpipe 2 pp"),
    lambda w, b: (
        (b.pp > 1)
        & ~_FILLED[b.schedule]
        & (b.num_microbatches(w.training.global_batch_size) < _FEWEST_BY_PP[b.schedule] * b.pp + _FEWEST_MORE[b.schedule])
    ),
    lambda w, s: Sentence(
        "schedule {} over pp {} needs num_microbatches of at least {}, and there are {}",
        s.schedule.label,
        s.pp,
        s.schedule.rules.fewest_microbatches.of(s.pp),
        num_microbatches(w, s),
    ),
    layout_only=True,
)

_STREAMS = np.array([schedule.rules.num_streams for schedule in Schedule])

DUALPIPE_HALVES = Rule(
    "dualpipe_halves",
    "[dualpipe, dualpipe.py]",
    Sentence("dualpipe feeds half of the micro batches from either end: pp and num_microbatches are even"),
    lambda w, b: (
        (b.pp > 1)
        & ((b.pp % _STREAMS[b.schedule] != 0) | (b.num_microbatches(w.training.global_batch_size) % _STREAMS[b.schedule] != 0))
    ),
    lambda w, s: Sentence(
        "{} needs pp and num_microbatches to be even, and they are {} and {}", s.schedule.label, s.pp, num_microbatches(w, s)
    ),
    layout_only=True,
)


def _overlap_without_pairs(workload: Workload, batch: StrategyBatch) -> Mask:
    unpaired: Mask = _RUNS_PAIRS_APART[batch.schedule] & (batch.pp > 1)
    return unpaired & has_effect(workload, batch, Feature.MOE_COMM_OVERLAP) if unpaired.any() else unpaired


OVERLAP_NEEDS_PAIRS = Rule(
    "overlap_needs_pairs",
    "[mindspeed, fb_overlap; megatron-main, arguments.py; zero-bubble, section 2]",
    Sentence(
        "moe_comm_overlap merges a forward with the backward that follows it: gpipe, zb1p, zb2p and zbv run "
        "each on its own, and in "
        "plain 1f1b every second pair of a rank would wait for a neighbour's; virtual stages or dualpipev do not"
    ),
    _overlap_without_pairs,
    lambda w, s: Sentence(
        "moe_comm_overlap over ep {} merges forwards with backwards, and schedule {} {}",
        s.ep,
        s.schedule.label,
        Sentence("has no pairs that do not wait for each other: vpp is 1")
        if PAIRS_WAIT[s.schedule]
        else Sentence("runs each on its own"),
    ),
)

LAYOUT_RULES = (
    VPP_NEEDS_PP,
    LAYERS_PER_STAGE,
    INTERLEAVED_FILL,
    INTERLEAVED_GROUP,
    INTERLEAVED_MICROBATCHES,
    DUALPIPE_HALVES,
    SCHEDULE_FILL,
)
OPTION_RULES = (LAYER_LAYOUT, MTP_STAGE, SCHEDULE, OVERLAP_NEEDS_PAIRS)

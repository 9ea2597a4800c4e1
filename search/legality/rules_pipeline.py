"""Physics of the pipeline: layers on stages, and the order of micro batches."""

from __future__ import annotations

import numpy as np

from cost_models.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.workload import Workload
from search.legality.rule import PHYSICS, Mask, Rule, num_microbatches

VPP_NEEDS_PP = Rule(
    "vpp_needs_pp",
    PHYSICS,
    "[megatron-0.12, arguments.py]",
    "virtual stages need a pipeline: vpp above 1 only with pp above 1",
    lambda w, b: (b.vpp > 1) & (b.pp == 1),
    lambda w, s: f"vpp {s.vpp} needs pp above 1, and pp is {s.pp}",
    layout_only=True,
)


def _schedule(workload: Workload, batch: StrategyBatch) -> Mask:
    interleaved: Mask = batch.schedule == Schedule.INTERLEAVED
    missing: Mask = (batch.schedule == Schedule.NONE) & (batch.pp > 1)
    mask: Mask = missing | (interleaved != (batch.vpp > 1))
    return mask


def _schedule_sentence(workload: Workload, s: ParallelStrategy) -> str:
    given = f"schedule {s.schedule.label} with pp {s.pp} and vpp {s.vpp}"
    if s.vpp > 1:
        return f"{given}: virtual stages run {Schedule.INTERLEAVED.label}"
    if s.schedule == Schedule.INTERLEAVED:
        return f"{given}: {Schedule.INTERLEAVED.label} needs vpp above 1"
    return f"{given}: a pipeline of one chunk a rank runs {Schedule.ONE_F_ONE_B.label}"


SCHEDULE = Rule(
    "schedule",
    PHYSICS,
    "[megatron-0.12, schedules.py]",
    "interleaved-1f1b exactly where vpp is above 1, else 1f1b where pp is above 1",
    _schedule,
    _schedule_sentence,
)

LAYERS_PER_STAGE = Rule(
    "layers_per_stage",
    PHYSICS,
    "[megatron-0.12, transformer_config.py; mindspeed, noop_layers.py]",
    "every virtual stage holds a layer: pp x vpp is at most the number of layers (a rest is filled with no-op layers)",
    lambda w, b: (b.layout_index < 0) & (b.pp * b.vpp > w.model.num_layers),
    lambda w, s: f"pp {s.pp} x vpp {s.vpp} = {s.pp * s.vpp} virtual stages, but {w.model.name} has {w.model.num_layers} layers",
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
    return (
        f"layer_layout has {len(layout)} chunks of {' or '.join(map(str, lengths)) or 0} stages and "
        f"{sum(map(sum, layout))} layers; vpp {s.vpp}, pp {s.pp} and {workload.model.num_layers} layers are needed"
    )


LAYER_LAYOUT = Rule(
    "layer_layout",
    PHYSICS,
    "[megatron-main, pipeline_parallel_layer_layout.py]",
    "a given layer_layout has vpp chunks of pp stages and places every layer once",
    _layer_layout,
    _layer_layout_sentence,
)

INTERLEAVED_MICROBATCHES = Rule(
    "interleaved_microbatches",
    PHYSICS,
    "[megatron-0.12, schedules.py]",
    "virtual stages take micro batches in groups of pp: num_microbatches is a multiple of pp",
    lambda w, b: (b.vpp > 1) & (b.num_microbatches(w.training.global_batch_size) % b.pp != 0),
    lambda w, s: (
        f"vpp {s.vpp} takes micro batches in groups of pp {s.pp}, and num_microbatches {num_microbatches(w, s)} = "
        f"{w.training.global_batch_size} / ({s.micro_batch_size} x {s.dp}) is not a multiple of it"
    ),
    layout_only=True,
)

INTERLEAVED_FILL = Rule(
    "interleaved_fill",
    PHYSICS,
    "[megatron-0.12, schedules.py]",
    "virtual stages need a full group: num_microbatches is at least pp",
    lambda w, b: (b.vpp > 1) & (b.num_microbatches(w.training.global_batch_size) < b.pp),
    lambda w, s: f"vpp {s.vpp} needs num_microbatches of at least pp {s.pp}, and there are {num_microbatches(w, s)}",
    layout_only=True,
)

LAYOUT_RULES = (VPP_NEEDS_PP, LAYERS_PER_STAGE, INTERLEAVED_FILL, INTERLEAVED_MICROBATCHES)
OPTION_RULES = (LAYER_LAYOUT, SCHEDULE)

"""Writes configurations of torchtitan's main: ``path=value``, the value in JSON [torchtitan-2026.08, config/configs.py]."""

from __future__ import annotations

import json

from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Workload
from frameworks.framework import LaunchArguments
from frameworks.options import Options, as_given
from frameworks.rule import layout_of, num_microbatches
from frameworks.table import settled
from frameworks.torchtitan.dialect import MAIN
from frameworks.torchtitan.nearest import nearest
from frameworks.torchtitan.stages import modules_of
from frameworks.torchtitan.table import STAGES
from frameworks.torchtitan.table_main import (
    ALL_LAYERS,
    ATTENTION,
    CHECKPOINTS,
    CHUNKED,
    CHUNKS,
    CONTEXT,
    FAMILY,
    FLAVOR,
    INNER_LOSS,
    LOSS,
    MICRO_BATCHES,
    NO_GRAPHS,
    NO_LAYER,
    OPERATORS,
    PLAIN,
    STEP_TOKENS,
    TABLE_MAIN,
    TOKENS,
    VOCABULARY,
)
from frameworks.torchtitan.writer import ENVIRONMENT, compilation, degrees, notes

_SWITCHES = TABLE_MAIN.offered & ~TABLE_MAIN.implied
_CHECKPOINTS = {Recompute.NONE: NO_LAYER, Recompute.FULL: ALL_LAYERS, Recompute.SELECTIVE: OPERATORS}


def arguments(workload: Workload, planned: ParallelStrategy) -> LaunchArguments:
    """Options and notes of the nearest strategy that main supports."""
    s, replaced = nearest(MAIN, workload, planned)
    options = {**_model(workload), **_batch(workload, s), **_parallelism(workload, s), **_loss(workload)}
    options |= {CHECKPOINTS: _CHECKPOINTS[s.recompute], **compilation(workload)}
    written = settled(MAIN.release, {**options, **TABLE_MAIN.arguments_of(_SWITCHES)}, s.features, as_given)
    launch = tuple(f"{name}={json.dumps(value)}" for name, value in {**written, "optimizer": "default_adamw"}.items())
    return LaunchArguments(s, launch, ENVIRONMENT, replaced + notes(MAIN.flavors, workload, s))


def _model(workload: Workload) -> Options:
    flavor = MAIN.flavors.of_job(workload)
    return {} if flavor is None else {FAMILY: flavor.name, FLAVOR: flavor.flavor, ATTENTION: flavor.attention}


def _batch(workload: Workload, s: ParallelStrategy) -> Options:
    """Tokens of one micro batch of a data-parallel rank, and of all of them in a step."""
    length = workload.training.seq_length
    return {
        TOKENS: s.micro_batch_size * length,
        STEP_TOKENS: workload.training.global_batch_size * length,
        CONTEXT: length,
        NO_GRAPHS: True,
    }


def _parallelism(workload: Workload, s: ParallelStrategy) -> Options:
    names, options = TABLE_MAIN.columns, degrees(TABLE_MAIN, s)
    if s.pp > 1:
        options |= {
            names["schedule"]: TABLE_MAIN.schedules.get(s.schedule, "1F1B"),
            MICRO_BATCHES: num_microbatches(workload, s),
            STAGES: modules_of(layout_of(workload, s), MAIN.head),
        }
    return options | ({names["ep"]: s.ep} if workload.model.moe is not None else {})


def _loss(workload: Workload) -> Options:
    chunks, rows = workload.software.loss_chunks, workload.model.vocab_size
    if not chunks:
        return {LOSS: PLAIN, f"{LOSS}.{VOCABULARY}": rows}
    return {LOSS: CHUNKED, CHUNKS: chunks, INNER_LOSS: PLAIN, f"{INNER_LOSS}.{VOCABULARY}": rows}

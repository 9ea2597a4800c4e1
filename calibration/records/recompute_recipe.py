"""The recompute of a run whose source does not state it, inferred from memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibration.records.training import RunRecord
from cost_models.constants import Constants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.step.composition import estimate
from documents.sentences import Sentence

_CHEAP_MODULES = RecomputeModule.CORE_ATTN | RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT | RecomputeModule.MLA_UP_PROJ
_BEYOND_DOUBT = 1.2  # peak over device memory that an error of the memory model may explain
_MAX_BLOCKS = 128


def recompute_by_memory(record: RunRecord, constants: Constants) -> tuple[ParallelStrategy, str | None]:
    """The record's strategy, with recompute if the source is silent and memory needs it, and a sentence on it.

    Without a statement the framework's default holds: no recompute. If that needs more than 1.2 x the device's memory, the run
    cannot have taken place in that way. It then gets the least recompute that stays below: selective, then full recompute of
    one more layer of every virtual stage at a time. So a prediction never jumps with the shape. Only predicted memory counts.
    """
    if record.recompute_stated:
        return record.strategy, None
    hbm_bytes = record.workload.cluster.profile.hbm_bytes
    limit_bytes = _BEYOND_DOUBT * hbm_bytes
    (without,) = estimate(record.workload, StrategyBatch.of([record.strategy]), constants).peak_memory_bytes
    if without <= limit_bytes:
        return record.strategy, None
    plans = _plans(record)
    fits = estimate(record.workload, StrategyBatch.of(plans), constants).peak_memory_bytes <= limit_bytes
    chosen = plans[int(np.argmax(fits)) if fits.any() else -1]
    layers = Sentence(" of {} layers a virtual stage", chosen.recompute_num_layers) if chosen.recompute is Recompute.FULL else ""
    sentence = Sentence(
        "strategy.recompute is not stated and none would take {:.0f} GiB of {:.0f}: read as {}{}.",
        without / 2**30,
        hbm_bytes / 2**30,
        chosen.recompute.label,
        layers,
    )
    return chosen, sentence


def _plans(record: RunRecord) -> list[ParallelStrategy]:
    """Selective recompute, then full recompute of more and more layers with selective recompute on the rest."""
    strategy = record.strategy
    selective = replace(strategy, recompute=Recompute.SELECTIVE, recompute_modules=_CHEAP_MODULES)
    layers = -(-record.workload.model.num_layers // (strategy.pp * strategy.vpp))
    counts = np.unique(np.linspace(1, layers, min(layers, _MAX_BLOCKS)).astype(int))
    blocks = [
        replace(selective, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=int(count))
        for count in counts
    ]
    return [selective, *blocks]

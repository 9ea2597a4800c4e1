"""Which recompute a run must have used when its source does not say."""

from __future__ import annotations

from dataclasses import replace

from calibration.run_records import RunRecord
from cost_models.constants import Constants
from cost_models.step import estimate
from cost_models.strategy import ParallelStrategy, Recompute, RecomputeMethod, RecomputeModule, StrategyBatch

_CHEAP_MODULES = RecomputeModule.CORE_ATTN | RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT | RecomputeModule.MLA_UP_PROJ
_BEYOND_DOUBT = 1.2  # peak over device memory from which an error of the memory model cannot explain it


def recompute_by_memory(record: RunRecord, constants: Constants) -> tuple[ParallelStrategy, str | None]:
    """The record's strategy, with recompute where the source is silent and memory leaves no choice, and a sentence on it.

    Nothing stated means the framework's default, none. Where that would exceed 1.2 x the device's memory the run cannot
    have taken place so: it gets selective recompute if that fits, else full. Rests on predicted memory alone.
    """
    if record.recompute_stated:
        return record.strategy, None
    plans = (
        record.strategy,
        replace(
            record.strategy,
            recompute=Recompute.SELECTIVE,
            recompute_modules=_CHEAP_MODULES,
        ),
        replace(
            record.strategy,
            recompute=Recompute.FULL,
            recompute_method=RecomputeMethod.UNIFORM,
            recompute_num_layers=1,
            recompute_modules=RecomputeModule(0),
        ),
    )
    peaks = estimate(record.workload, StrategyBatch.of(plans), constants).peak_memory_bytes
    hbm_bytes = record.workload.cluster.profile.hbm_bytes
    if peaks[0] <= _BEYOND_DOUBT * hbm_bytes:
        return record.strategy, None
    chosen = 1 if peaks[1] <= hbm_bytes else 2
    sentence = (
        f"strategy.recompute is not stated and none would take {peaks[0] / 2**30:.0f} GiB of {hbm_bytes / 2**30:.0f}: "
        f"read as {plans[chosen].recompute.label}."
    )
    return plans[chosen], sentence

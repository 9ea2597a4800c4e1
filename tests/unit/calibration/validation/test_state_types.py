"""Published peaks of Megatron-LM's precision-aware optimizer with both moments in BF16 (``bf16_moments``)."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from app.calibrations.constants import constants_for
from calibration.records.training import RunRecord, read_run_records
from cost_models.shapes.optimizers import ADAM, Optimizer, StateTypes
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.step.composition import estimate

RUNS = Path(__file__).parents[4] / "calibration/runs/gpu.jsonl"
MOONLIGHT = "mbskill-moonlight-16b-a3b-h100-8g-tp2ep8-gbs4-recompute-"


@cache
def runs() -> tuple[RunRecord, ...]:
    return tuple(record for record in read_run_records(RUNS) if record.id.startswith(MOONLIGHT))


def errors(optimizer: Optimizer, features: Feature) -> np.ndarray:
    """Predicted over measured peaks of allocations, less 1."""
    found = []
    for record in runs():
        job = replace(record.workload, training=replace(record.workload.training, optimizer=optimizer))
        plan = StrategyBatch.of([replace(record.strategy, features=record.strategy.features & ~Feature.BF16_MOMENTS | features)])
        predicted = estimate(job, plan, constants_for(job, [])).allocated_peak_bytes[0]
        assert record.measured.peak_memory_bytes is not None
        found.append(float(predicted) / record.measured.peak_memory_bytes - 1.0)
    return np.array(found)


def test_moonlights_peaks_are_those_that_the_switch_prints() -> None:
    assert len(runs()) == 6
    assert all(Feature.BF16_MOMENTS in record.strategy.features for record in runs())
    assert np.abs(errors(ADAM, Feature.BF16_MOMENTS)).max() < 0.03


def test_moonlights_peaks_refute_remainders_without_copies() -> None:
    # Why the switch keeps 4 bytes of master weights and the copy of gradients, although the sources say 2 and none.
    typed = errors(Optimizer(state_types=StateTypes("fp32", "bf16", "bf16")), Feature(0))
    assert typed.max() < -0.08

"""Published peaks of Megatron-LM's precision-aware optimizer, before Transformer Engine 2.13 took moments in BF16 as they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.calibrations.constants import constants_for
from calibration.records.training import RunRecord, read_run_records
from cost_models.shapes.optimizers import Optimizer, StateTypes
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.step.composition import estimate
from search.plans.plan import estimates_to_mappings

RUNS = Path(__file__).parents[4] / "calibration/runs/gpu.jsonl"
MOONLIGHT = "mbskill-moonlight-16b-a3b-h100-8g-tp2ep8-gbs4-recompute-"
STATES = ("weights", "gradients", "optimizer_master_weights", "optimizer_moments")
# 26 layers, 64 experts over ep 8; gate, up and down projections of 2,048 x 1,408.
EXPERTS = 26 * 8 * 3 * 2048 * 1408


def states_bytes(record: RunRecord) -> float:
    """Bytes between steps, with a remainder of master weights and moments in BF16."""
    types = Optimizer(state_types=StateTypes("fp32", "bf16", "bf16"))
    job = replace(record.workload, training=replace(record.workload.training, optimizer=types))
    plan = StrategyBatch.of([replace(record.strategy, features=record.strategy.features & ~Feature.BF16_MOMENTS)])
    (document,) = estimates_to_mappings(job, estimate(job, plan, constants_for(job, []), breakdown=True))
    return float(sum(document["memory_breakdown_bytes"][name] for name in STATES))


def test_moonlights_peaks_are_those_of_its_optimizer() -> None:
    # The peak hardly depends on what is recomputed: it is that of the experts' optimizer, which copied both moments to FP32.
    records = [record for record in read_run_records(RUNS) if record.id.startswith(MOONLIGHT)]
    assert len(records) == 6
    for record in records:
        assert states_bytes(record) + 8 * EXPERTS == pytest.approx(record.measured.peak_memory_bytes, rel=0.03), record.id

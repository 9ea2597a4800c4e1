"""The mask of sequence x sequence that Megatron-LM's data loader makes: who holds it, and how many at once.

A sequence of 4,096 tokens has a mask of 4,096^2 = 16 MiB, one byte an entry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.step.composition import estimate
from tests.workloads import DENSE, constants, workload

MASK = 16 * 2**20
FULL = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1}
CORE = {"recompute": Recompute.SELECTIVE, "recompute_modules": RecomputeModule.CORE_ATTN}


def added(**values: Any) -> float:
    """Bytes that the mask adds to what the worst rank allocates."""
    plan = ParallelStrategy(dp=2, **values)
    without = workload(replace(DENSE, vocab_size=256), seq_length=4096)  # a small head, so that the first stage is the fullest
    with_mask = replace(without, software=replace(without.software, loader_mask=True))
    plain, masked = (estimate(each, StrategyBatch.of([plan]), constants()) for each in (without, with_mask))
    np.testing.assert_array_equal(masked.step_time_s, plain.step_time_s)
    return float(masked.allocated_peak_bytes[0] - plain.allocated_peak_bytes[0])


@pytest.mark.parametrize(
    ("values", "masks"),
    [
        ({}, 1.0),
        ({"micro_batch_size": 2}, 2.0),
        ({"tp": 2, "sequence_parallel": True}, 1.0),  # every rank of the group has the whole mask
        ({"cp": 2}, 0.5),  # its rows alone
        (FULL, 1.0),
        (CORE, 1.0),
    ],
)
def test_a_device_holds_the_mask_of_its_micro_batch(values: dict[str, Any], masks: float) -> None:
    assert added(**values) == pytest.approx(masks * MASK, rel=1e-9)


@pytest.mark.parametrize("values", [FULL, CORE, {**FULL, "tp": 2, "sequence_parallel": True}])
def test_recomputed_micro_batches_in_flight_keep_theirs(values: dict[str, Any]) -> None:
    """Of four stages under 1F1B the first, which is the fullest, has four micro batches in flight."""
    assert added(pp=4, **values) == pytest.approx(4 * MASK, rel=1e-9)


def test_the_others_let_it_go_with_the_forward() -> None:
    assert added(pp=4) == pytest.approx(MASK, rel=1e-9)

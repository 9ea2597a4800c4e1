"""Every pipeline rank of a plan: sums, ends, and agreement with the estimate."""

import numpy as np
import pytest

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.step.stage_costs import stage_costs
from tests.workloads import SPARSE, constants, priced, workload

STRATEGY = ParallelStrategy(
    pp=4, dp=4, ep=4, vpp=2, schedule=Schedule.INTERLEAVED, dispatcher=Dispatcher.ALLTOALL,
    recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=1,
)  # fmt: skip


def test_ranks_add_up_to_the_model() -> None:
    found = stage_costs(workload(SPARSE), STRATEGY, constants())
    assert found.num_layers.tolist() == [2, 2, 2, 2]
    assert found.num_moe_layers.tolist() == [1, 1, 2, 2]  # the two leading dense layers are on the first two ranks
    assert found.num_embeddings.tolist() == [1, 0, 0, 0]
    assert found.num_heads.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("strategy", [STRATEGY, ParallelStrategy(pp=2, dp=4, ep=4, dispatcher=Dispatcher.ALLTOALL)])
def test_ranks_agree_with_the_estimate(strategy: ParallelStrategy) -> None:
    job = workload(SPARSE)
    found, expected = stage_costs(job, strategy, constants()), priced(job, strategy)
    assert expected.stage_peak_memory_bytes is not None
    assert expected.stage_time_s is not None
    assert expected.breakdown is not None
    np.testing.assert_allclose(found.peak_memory_bytes, expected.stage_peak_memory_bytes[:, 0])
    np.testing.assert_allclose(found.forward_s + found.backward_s, expected.stage_time_s[:, 0])
    np.testing.assert_allclose(sum(found.memory_bytes.values()), found.peak_memory_bytes, rtol=1e-9)
    worst = int(found.peak_memory_bytes.argmax())
    assert found.peak_memory_bytes[worst] == float(expected.peak_memory_bytes[0])
    for name, part in expected.breakdown.memory_bytes.items():
        assert found.memory_bytes[name][worst] == pytest.approx(float(part[0]))

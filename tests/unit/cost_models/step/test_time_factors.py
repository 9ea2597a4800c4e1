"""What the factors of a job's cluster and software multiply, and what they leave alone."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Cluster, Workload, WorkloadError
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from hardware_profiles.schema import CollectiveCurve
from tests.networks import ascend_a2, gpu
from tests.workloads import SPARSE, constants, workload

CURVE = CollectiveCurve("all_reduce", 8, (1e5, 1e8), (1e-4, 2e-3), "test")
CLUSTERS = {"mesh": ascend_a2([CURVE], latency_s=2e-6), "switch": gpu(latency_s=2e-6)}
STRATEGIES = (
    ParallelStrategy(tp=8, dp=4),
    ParallelStrategy(tp=2, pp=4, dp=16, ep=8, vpp=2, schedule=Schedule.INTERLEAVED, dispatcher=Dispatcher.ALLTOALL),
    ParallelStrategy(cp=4, dp=8, ep=4, cp_algo=CpAlgo.RING, zero_stage=3, dispatcher=Dispatcher.ALLGATHER),
    ParallelStrategy(tp=4, dp=8, features=DEFAULT_FEATURES & ~Feature.OVERLAP_GRAD_REDUCE),
)
COMMUNICATION = ("tp_comm", "cp_comm", "ep_comm", "weight_gather", "pipeline_p2p", "dp_comm")


def slowed(job: Workload, *, cluster: float = 1.0, software: float = 1.0) -> Workload:
    return replace(
        job,
        cluster=replace(job.cluster, time_factor=cluster),
        software=replace(job.software, time_factor=software),
    )


def without_host(job: Workload) -> Estimate:
    """Prices without host time and the step's fixed cost; the rest as on a real machine."""
    real = {"kernel_s": 1e-5, "collective_latency_s": 1e-5, "dp_exposed_fraction": 0.4, "p2p_exposed_fraction": 0.3}
    return estimate(job, StrategyBatch.of(STRATEGIES), constants(**real, hidden_stretch_fraction=0.2), breakdown=True)


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("factor", [0.2, 1.3, 5.0])
def test_a_cluster_twice_as_slow_takes_twice_as_long(cluster: Cluster, factor: float) -> None:
    job = workload(SPARSE, cluster=cluster)
    before, after = without_host(job), without_host(slowed(job, cluster=factor))
    np.testing.assert_allclose(after.step_time_s, factor * before.step_time_s)
    np.testing.assert_allclose(after.step_time_lower_bound_s, factor * before.step_time_lower_bound_s)
    np.testing.assert_array_equal(after.peak_memory_bytes, before.peak_memory_bytes)
    assert before.breakdown is not None
    assert after.breakdown is not None
    for part, time_s in before.breakdown.time_s.items():
        np.testing.assert_allclose(after.breakdown.time_s[part], factor * time_s, atol=1e-12, err_msg=part)


def test_software_slows_the_devices_and_no_collective() -> None:
    job = workload(SPARSE, cluster=CLUSTERS["switch"])
    plain = ParallelStrategy(tp=4, dp=8, ep=4, dispatcher=Dispatcher.ALLTOALL, features=Feature(0))  # nothing overlaps
    before, after = (
        estimate(each, StrategyBatch.of([plain]), constants(), breakdown=True).breakdown
        for each in (job, slowed(job, software=1.5))
    )
    assert before is not None
    assert after is not None
    for part in before.time_s.keys() - {"embedding", "head_and_loss"}:  # these hold both
        factor = 1.0 if part in COMMUNICATION else 1.5
        assert after.time_s[part] == pytest.approx(factor * before.time_s[part]), part
    assert sum(before.time_s[part][0] for part in COMMUNICATION) > 0.0


@pytest.mark.parametrize(("cluster", "software"), [(0.2, 1.0), (5.0, 0.2), (1.0, 5.0), (0.7, 1.4)])
@pytest.mark.parametrize("execution", ["eager", "graph"])
def test_the_bound_stays_a_bound_and_the_host_stays_as_it_is(cluster: float, software: float, execution: str) -> None:
    job = slowed(workload(SPARSE, cluster=CLUSTERS["mesh"], execution=execution), cluster=cluster, software=software)
    found = estimate(job, StrategyBatch.of(STRATEGIES), prior_constants("ascend"), breakdown=True)
    assert (found.step_time_lower_bound_s > 0.0).all()
    assert (found.step_time_lower_bound_s <= found.step_time_s).all()
    assert found.breakdown is not None
    assert (found.breakdown.time_s["step_overhead"] == prior_constants("ascend").step_overhead_s).all()


def test_time_never_falls_as_the_factor_grows() -> None:
    job = workload(SPARSE, cluster=CLUSTERS["mesh"])
    times = [
        estimate(slowed(job, cluster=factor), StrategyBatch.of(STRATEGIES), prior_constants("ascend")).step_time_s
        for factor in np.geomspace(0.2, 5.0, 15)
    ]
    assert (np.diff(times, axis=0) >= 0.0).all()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_factor_is_positive(factor: float) -> None:
    with pytest.raises(WorkloadError, match=r"cluster\.time_factor"):
        without_host(slowed(workload(SPARSE), cluster=factor))

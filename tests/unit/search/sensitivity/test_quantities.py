"""What a step answers when one rate or time moves."""

from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from search.explain.plan_analysis import plan_analysis
from search.sensitivity.quantities import CHANGE, sensitivity
from search.space.search_space import search_space
from tests.search_workloads import MOE, workload

CONSTANTS = prior_constants("ascend")
NODE = ParallelStrategy(tp=8, dp=2, sequence_parallel=True)
EXPERTS = ParallelStrategy(dp=16, ep=16, dispatcher=Dispatcher.ALLTOALL)


def found(job: Workload, strategy: ParallelStrategy) -> dict[str, dict[str, float]]:
    return {entry["quantity"]: entry for entry in sensitivity(job, strategy, CONSTANTS, estimate)}


def test_a_faster_device_is_worth_what_the_estimate_says_of_it() -> None:
    job = workload()
    profile = job.cluster.profile
    faster = replace(
        profile,
        matmul_flops_per_s={name: rate * 1.1 for name, rate in profile.matmul_flops_per_s.items()},
        achievable_matmul_flops_per_s={name: rate * 1.1 for name, rate in profile.achievable_matmul_flops_per_s.items()},
    )
    other = replace(job, cluster=replace(job.cluster, profile=faster))
    batch = StrategyBatch.of([NODE])
    before, after = (float(estimate(w, batch, CONSTANTS).step_time_s[0]) for w in (job, other))
    entry = found(job, NODE)["matmul_rate"]
    assert entry["better_step_time_s"] == pytest.approx(after)
    assert entry["better_delta_fraction"] == pytest.approx(after / before - 1)
    assert -CHANGE < entry["better_delta_fraction"] < 0 < entry["worse_delta_fraction"] < CHANGE


def test_only_what_the_plan_uses_is_listed_what_matters_most_first() -> None:
    inside = found(workload(num_devices=8), ParallelStrategy(tp=8, sequence_parallel=True))
    assert "bandwidth.hccs" in inside
    assert not {"bandwidth.roce", "host_link", "expert_balance"} & set(inside)
    spans = [entry["worse_step_time_s"] - entry["better_step_time_s"] for entry in inside.values()]
    assert spans == sorted(spans, reverse=True)
    assert "bandwidth.roce" in found(workload(), NODE)


@pytest.mark.parametrize("rate", [None, 4e11])
def test_host_memory_moves_plans_that_run_adam_there(rate: float | None) -> None:
    job = workload()
    job = replace(job, cluster=replace(job.cluster, profile=replace(job.cluster.profile, host_memory_bytes_per_s=rate)))
    on_host = replace(NODE, features=NODE.features | Feature.OPTIMIZER_CPU_OFFLOAD)
    entry = found(job, on_host)["host_memory"]
    batch = StrategyBatch.of([on_host])
    share = 51.2e9 * 1.1 * 8 if rate is None else rate * 1.1
    faster = replace(job, cluster=replace(job.cluster, profile=replace(job.cluster.profile, host_memory_bytes_per_s=share)))
    assert entry["better_step_time_s"] == pytest.approx(float(estimate(faster, batch, CONSTANTS).step_time_s[0]))
    assert entry["better_delta_fraction"] < 0 < entry["worse_delta_fraction"]
    assert "host_memory" not in found(job, NODE)


def test_a_bandwidth_that_the_site_gives_is_the_one_that_moves() -> None:
    job = workload()
    site = replace(job, cluster=replace(job.cluster, inter_node_bytes_per_s=10e9))
    assert found(site, NODE)["bandwidth.roce"]["better_delta_fraction"] < 0


def test_expert_balance_counts_where_a_load_is_given() -> None:
    job = workload(MOE)
    loaded = replace(job, training=replace(job.training, expert_load_factor=1.5))
    assert "expert_balance" not in found(job, EXPERTS)
    assert found(loaded, EXPERTS)["expert_balance"]["better_delta_fraction"] < 0


def test_an_analysis_holds_ranks_traffic_and_changes_of_any_plan() -> None:
    job = workload()
    strategy = ParallelStrategy(tp=2, pp=2, dp=4, sequence_parallel=True)
    analysis = plan_analysis(job, search_space(job), strategy, CONSTANTS, estimate)
    assert [(tier["name"], tier["domain_devices"]) for tier in analysis["tiers"]] == [("hccs", 8), ("roce", None)]
    assert [stage["stage"] for stage in analysis["stages"]] == [0, 1]
    for stage in analysis["stages"]:
        assert sum(stage["memory_bytes"].values()) == pytest.approx(stage["peak_memory_bytes"])
    assert [group["group"] for group in analysis["traffic"]] == ["tp", "dp", "pp"]
    groups = [(each["group"], each["size"], each["stride"]) for each in analysis["placement"]]
    assert groups == [("tp", 2, 1), ("cp", 1, 2), ("dp", 4, 2), ("pp", 2, 8)]
    assert analysis["devices_per_node"] == 8
    assert "tp 2 -> 4" in ", ".join(change["change"] for change in analysis["changes"])
    assert analysis["step_time_s"] == float(estimate(job, StrategyBatch.of([strategy]), CONSTANTS).step_time_s[0])

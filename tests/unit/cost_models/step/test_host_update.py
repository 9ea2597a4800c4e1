"""Adam on the host: its time by hand, and the host memory of a node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.memory.model_states import StageParameters
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import optimizer_s
from cost_models.step.host_update import host_bytes_of_node, host_update_fractions, host_update_s
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, batch, device, workload

P, HBM, LINK = 1e9, 1.6e12, 25e9
ON_HOST = DEFAULT_FEATURES | Feature.OPTIMIZER_CPU_OFFLOAD


def with_host(job: Workload, **numbers: float) -> Workload:
    profile = replace(job.cluster.profile, **numbers)
    return replace(job, cluster=replace(job.cluster, profile=profile))


def seconds(job: Workload) -> float:
    return float(host_update_s(job, batch(dp=16, features=ON_HOST), np.array([[P]]))[0, 0])


def test_adam_moves_28_bytes_of_host_memory_copies_16_and_the_link_8() -> None:
    job = with_host(workload(), host_memory_bytes_per_s=400e9)
    ranks = min(job.cluster.profile.devices_per_node, job.cluster.num_devices)
    assert seconds(job) == pytest.approx((28 + 16) / (0.6 * 400e9 / ranks) * P + 8 / LINK * P)


def on_devices(number: int) -> Workload:
    job = with_host(workload(), host_memory_bytes_per_s=614.4e9)
    return replace(job, cluster=replace(job.cluster, num_devices=number))


def test_threads_limit_a_rank_that_shares_its_host_with_few() -> None:
    # Of 614.4 GB/s at 0.6, 2 ranks have 184.3 each and 1 has 368.6; eight threads move 8 x 26 = 208.
    assert seconds(on_devices(2)) == pytest.approx(44 / 184.32e9 * P + 8 / LINK * P)
    assert seconds(on_devices(1)) == pytest.approx(44 / 208e9 * P + 8 / LINK * P)


def test_the_range_reaches_one_thread_a_rank() -> None:
    def ends(number: int) -> tuple[float, float]:
        return host_update_fractions(on_devices(number))

    thread_s = 44 / 26e9 * P + 8 / LINK * P
    assert ends(1) == pytest.approx((0.6, thread_s / seconds(on_devices(1))))
    assert ends(2)[1] * seconds(on_devices(2)) == pytest.approx(thread_s)
    assert thread_s / seconds(on_devices(8)) < ends(8)[1] == 2.0


def test_short_moments_are_fewer_bytes_of_host_memory() -> None:
    job, short = workload(), batch(dp=16, features=ON_HOST | Feature.BF16_MOMENTS)
    saved = seconds(job) - float(host_update_s(job, short, np.array([[P]]))[0, 0])
    assert saved == pytest.approx(8 / (0.6 * 51.2e9) * P)


def test_a_rank_has_the_share_of_an_a100_where_the_rate_is_not_stated() -> None:
    assert seconds(workload()) / P == worked("host-update")


def test_a_step_reads_gradients_for_the_norm_and_updates_its_shard_on_the_host() -> None:
    job, held = workload(), StageParameters(*(np.array([[value]]) for value in (P, *[0.0] * 7)))
    found = float(optimizer_s(job, batch(dp=16, features=ON_HOST), held, device(job))[0, 0])
    assert found == pytest.approx(8 * P / HBM + (44 / (0.6 * 51.2e9) + 8 / LINK) * P / 16)


def of_node(job: Workload, **columns: object) -> float:
    return float(host_bytes_of_node(job, batch(**columns))[0])


def test_a_node_holds_its_part_of_all_states() -> None:
    job = workload(DENSE)
    nodes = job.cluster.num_devices / job.cluster.profile.devices_per_node
    whole = num_parameters(job.model).total / nodes
    swapped = DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER
    assert of_node(job, dp=4, tp=4, features=ON_HOST) == pytest.approx(16 * whole)
    assert of_node(job, dp=16, features=swapped) == pytest.approx(12 * whole)
    assert of_node(job, dp=16, zero_stage=0, features=swapped) == pytest.approx(16 * 12 * whole)
    assert of_node(job, dp=16, optimizer_shard_size=4, features=ON_HOST) == pytest.approx(4 * 16 * whole)
    assert of_node(job, dp=16) == 0.0


def test_ranks_first_copy_all_parameters_that_they_hold() -> None:
    # Of 16 replicas each copies all of them at the start, 4 bytes each; experts have 32 / 16 = 2 replicas.
    job = workload(DENSE)
    nodes = job.cluster.num_devices / job.cluster.profile.devices_per_node
    whole = num_parameters(job.model).total / nodes
    assert of_node(job, dp=16, features=ON_HOST) == pytest.approx(16 * 4 * whole)
    assert of_node(job, dp=8, tp=2, features=ON_HOST) == pytest.approx(8 * 4 * whole)
    experts = workload(SPARSE)
    whole = num_parameters(experts.model).total / (experts.cluster.num_devices / experts.cluster.profile.devices_per_node)
    assert of_node(experts, dp=32, ep=16, features=ON_HOST) == pytest.approx(16 * whole)
    assert of_node(experts, dp=32, ep=4, features=ON_HOST) == pytest.approx(8 * 4 * whole)


def test_weights_in_fp32_have_a_copy_on_the_host_too() -> None:
    job = workload(DENSE, precision="fp32", stack="fsdp")
    assert job.keeps_fp32_weights
    nodes = job.cluster.num_devices / job.cluster.profile.devices_per_node
    whole = num_parameters(job.model).total / nodes
    assert of_node(job, dp=4, features=ON_HOST) == pytest.approx(16 * whole)
    assert of_node(job, dp=4, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER) == pytest.approx(8 * whole)


def test_copies_are_those_of_the_parameters_that_have_fewest() -> None:
    # 32 replicas of dense weights, and 32 / 16 of experts
    job = workload(SPARSE)
    nodes = job.cluster.num_devices / job.cluster.profile.devices_per_node
    whole = num_parameters(job.model).total / nodes
    found = of_node(job, dp=32, ep=16, zero_stage=0, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER)
    assert found == pytest.approx(2 * 12 * whole)


def test_adapters_take_no_host_memory() -> None:
    job = workload()
    task = TrainingTask(Task.LORA, Adapters(8, 16.0, ("linear_qkv",)))
    assert of_node(replace(job, training=replace(job.training, task=task)), dp=16, features=ON_HOST) == 0.0

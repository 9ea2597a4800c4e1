"""A search finds shards with copies (HSDP) where a count of all divisors of the ranks finds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.catalogue.models.presets import model_preset
from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Cluster, Software, TrainingJob, Workload
from cost_models.simulation.step_times import simulate
from hardware_profiles.catalogue import profile
from search.exhaustive.lattice_search import search
from search.explain.explanation import where_shards_lie
from search.explain.plan_analysis import plan_analysis
from search.session.request import SearchRequest
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space

CONSTANTS = prior_constants("nvidia")
LIMITS = SearchLimits(tp=(1,), pp=(1,), vpp=(1,), cp=(1,), micro_batch_size=(1,), recompute=(recompute_mode("none"),))


def job(hardware: str, num_devices: int, seq_length: int) -> Workload:
    return Workload(
        model_preset("llama-3.1-8b").model,
        TrainingJob(seq_length=seq_length, global_batch_size=num_devices),
        Cluster(profile(hardware), num_devices),
        Software("fsdp"),
    )


@pytest.mark.parametrize(
    ("hardware", "num_devices", "seq_length", "size"),
    [
        ("gb200-nvl72", 576, 8192, 72),  # eight racks: shards inside NVLink, copies over the network
        ("h100-sxm-80gb", 1024, 2048, 128),  # a ring over 16 nodes in place of 128
        ("h100-sxm-80gb", 8, 2048, 0),  # one node: nothing to keep inside
    ],
)
def test_shards_with_copies_are_found_where_they_are_fastest(hardware: str, num_devices: int, seq_length: int, size: int) -> None:
    made = job(hardware, num_devices, seq_length)
    space = search_space(made, LIMITS)
    best = search(SearchRequest(made, space, CONSTANTS)).plans[0].parallel
    assert best.optimizer_shard_size == size
    node, rack = made.cluster.profile.devices_per_node, made.cluster.profile.tiers[0].domain_devices or 1
    nested = [
        shards
        for shards in range(node, num_devices + 1)
        if num_devices % shards == 0 and shards % node == 0 and (shards % rack == 0 or rack % shards == 0)
    ]
    every = [
        ParallelStrategy(dp=num_devices, zero_stage=stage, optimizer_shard_size=shards % num_devices, features=best.features)
        for stage in (2, 3)
        for shards in nested
    ]
    found = simulate(made, StrategyBatch.of(every), CONSTANTS)
    fastest = float(found.step_time_s[found.fits].min())
    assert float(simulate(made, StrategyBatch.of([best]), CONSTANTS).step_time_s[0]) == pytest.approx(fastest)


def test_an_answer_says_which_tiers_join_shards_and_copies() -> None:
    made = job("gb200-nvl72", 576, 8192)
    plan = ParallelStrategy(tp=2, dp=288, zero_stage=3, optimizer_shard_size=36)
    assert where_shards_lie(made, plan) == "36 ranks share a copy through nvlink, and 8 copies are added through infiniband."
    assert where_shards_lie(made, replace(plan, optimizer_shard_size=0)) is None
    assert where_shards_lie(made, replace(plan, optimizer_shard_size=1)) == "288 copies are added through infiniband."
    wide = replace(plan, optimizer_shard_size=72)  # 144 devices: two racks
    assert where_shards_lie(made, wide) == "72 ranks share a copy through infiniband, and 4 copies are added through infiniband."


def test_the_map_has_the_groups_of_shards_and_of_copies() -> None:
    made = job("gb200-nvl72", 576, 8192)
    plan = ParallelStrategy(tp=2, dp=288, zero_stage=3, optimizer_shard_size=36)
    groups = {
        size: [
            (each["group"], each["size"], each["stride"])
            for each in plan_analysis(
                made, search_space(made, LIMITS), replace(plan, optimizer_shard_size=size), CONSTANTS, simulate
            )["placement"]
            if each["group"] not in ("tp", "cp", "pp")
        ]
        for size in (0, 36)
    }
    # rank r has the ranks r // 72 * 72 + r % 2 + 2 k, k < 36, and in the other racks those at r % 72
    assert groups == {0: [("dp", 288, 2)], 36: [("dp", 288, 2), ("shard", 36, 2), ("copies", 8, 72)]}

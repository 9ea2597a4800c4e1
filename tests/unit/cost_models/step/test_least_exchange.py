"""The exchange of the mean rank is a lower bound under every placement, and nearly reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.strategy import ParallelStrategy, Placement, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Task, TrainingTask
from cost_models.shapes.workload import Software, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.data_parallel import exchange_beyond_compute_s
from cost_models.step.least_exchange import least_exchange
from cost_models.step.placing import least_step_times_s, work
from cost_models.step.priced_groups import priced_batch
from hardware_profiles.schema import CollectiveCurve, NetworkTier, Wiring
from tests.networks import cluster
from tests.placements import placements
from tests.search_workloads import DENSE, MOE
from tests.workloads import constants, workload

CONSTANTS = replace(constants(), dp_exposed_fraction=0.2)
MODELS = (DENSE, replace(DENSE, tied_embeddings=True), replace(MOE, mtp_num_layers=1))
ADAPTED = TrainingTask(Task.LORA, Adapters(16, 16.0, tuple(MEGATRON_MODULES)))
FULLY_SHARDED, UNITS = Software("fsdp", target="any"), Software("megatron-lm", target="any", year=2026.63)
NVLINK = NetworkTier("nvlink", Wiring.SWITCH, 4, 300e9, 1e-5)
IN_FOURS = cluster(NVLINK, NetworkTier("ib", Wiring.FABRIC, None, 25e9, 1e-5), sequential=False)
BARELY_JOINED = cluster(NVLINK, NetworkTier("ib", Wiring.FABRIC, None, 25e7, 1e-5), sequential=False)
OVERLAPS = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER


def on_slow_network(made: Workload, slower: float) -> Workload:
    """The job with so much slower links that the exchange takes as long as many micro batches."""
    profile = made.cluster.profile
    tiers = tuple(
        replace(
            tier,
            bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s / slower,
            link_bytes_per_s=tier.link_bytes_per_s and tier.link_bytes_per_s / slower,
        )
        for tier in profile.tiers
    )
    return replace(made, cluster=replace(made.cluster, profile=replace(profile, tiers=tiers)))


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Workload, list[ParallelStrategy], list[Placement]]:
    """Strategies of one pipeline that share their gradients in many ways, and placements of its layers."""
    pp = draw(st.sampled_from((1, 2, 4)))
    schedule = draw(st.sampled_from([each for each in Schedule if (each is Schedule.NONE) == (pp == 1)]))
    vpp = 2 if schedule is Schedule.INTERLEAVED or schedule.rules.is_vee else 1
    model = replace(draw(st.sampled_from(MODELS)), num_layers=draw(st.integers(pp * vpp, 12)))
    features = DEFAULT_FEATURES & ~OVERLAPS | draw(st.sampled_from((Feature(0), Feature.OVERLAP_GRAD_REDUCE, OVERLAPS)))
    ep = draw(st.sampled_from((1, 2))) if model.moe else 1
    shape = ParallelStrategy(pp=pp, vpp=vpp, schedule=schedule, ep=ep, features=features)
    plans = [
        replace(shape, dp=dp, tp=tp, zero_stage=zero, micro_batch_size=size, optimizer_shard_size=shards)
        for dp, tp, size in ((4, 1, 1), (2, 2, 1), (4, 1, 2), (16, 1, 1))
        for zero in (0, 1, 2, 3)
        for shards in ((0, 2, 8) if zero else (0,))
        if shards < dp
    ]
    made = workload(model, global_batch_size=64, target="any")
    if software := draw(st.sampled_from((None, FULLY_SHARDED, UNITS))):
        made = replace(made, cluster=IN_FOURS, software=software)
    made = on_slow_network(made, draw(st.sampled_from((1.0, 30.0, 300.0))))
    if draw(st.booleans()) and not model.moe:
        made = replace(made, training=replace(made.training, task=ADAPTED))
    elif draw(st.booleans()):
        made = replace(made, training=replace(made.training, optimizer=Optimizer("muon")))
    drawn = draw(st.lists(placements(model.num_layers, pp, vpp), min_size=1, max_size=3))
    return made, plans, [Placement(layout, before if model.mtp_num_layers else 0) for layout, before in drawn]


def under(plans: Sequence[ParallelStrategy], placement: Placement) -> StrategyBatch:
    return StrategyBatch.of([replace(plan, **placement._asdict()) for plan in plans])


@given(pipelines())
@settings(max_examples=60, deadline=None)
def test_no_placement_has_a_shorter_exchange_on_the_mean_rank(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    least = least_exchange(priced_batch(made, StrategyBatch.of(plans), CONSTANTS))
    for each in several:
        for rows, group in priced_batch(made, under(plans, each), CONSTANTS).groups(merge=False, tables=False):
            exchange = group.sharded.exchange
            nothing, for_ever = np.zeros((group.stages.pp, len(rows))), np.full((group.stages.pp, len(rows)), np.inf)
            whole_s, exposed_s = (
                sum(exchange_beyond_compute_s(group.batch, exchange, window, window, CONSTANTS.dp_exposed_fraction)).mean(axis=0)
                for window in (nothing, for_ever)
            )
            assert (least.whole_s[rows] <= whole_s * (1 + 1e-9)).all()
            assert (least.never_hidden_s[rows] <= exposed_s * (1 + 1e-9)).all()


@given(pipelines())
@settings(max_examples=40, deadline=None)
def test_no_step_is_faster_than_the_mean_rank_with_its_exchange(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    priced = priced_batch(made, StrategyBatch.of(plans), CONSTANTS)
    bound_s = least_step_times_s(priced, work(priced)).step_s
    fewest = {Schedule.ZBV: 2, Schedule.DUALPIPE_V: 2, Schedule.DUALPIPE: 2}.get(plans[0].schedule, 1) * plans[0].pp + 1
    enough = np.array([row for row, plan in enumerate(plans) if 64 // (plan.dp * plan.micro_batch_size) >= fewest])
    if not len(enough):
        return
    for each in several:
        played_s = simulate(made, under(plans, each).take(enough), CONSTANTS, memory=False).step_time_s
        assert (bound_s[enough] <= played_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("overlaps", [Feature(0), OVERLAPS], ids=("apart", "overlapped"))
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_one_rank_alone_nearly_reaches_its_bound_where_the_exchange_is_long(zero: int, overlaps: Feature) -> None:
    made = on_slow_network(workload(DENSE, global_batch_size=64, target="any"), 300.0)
    plan = ParallelStrategy(dp=8, zero_stage=zero, features=DEFAULT_FEATURES & ~OVERLAPS | overlaps)
    priced = priced_batch(made, StrategyBatch.of([plan]), CONSTANTS)
    played_s = simulate(made, StrategyBatch.of([plan]), CONSTANTS, memory=False).step_time_s
    exchange = least_exchange(priced)
    assert exchange.whole_s[0] > 0.5 * played_s[0]
    hidden_s = 0.0 if not overlaps else played_s[0] / 8  # by one of eight micro batches
    assert played_s[0] - hidden_s <= least_step_times_s(priced, work(priced)).step_s[0] * 1.01 <= played_s[0] * 1.01


@pytest.mark.parametrize("slower", [1.0, 4.0, 16.0, 64.0])
@pytest.mark.parametrize("software", [FULLY_SHARDED, UNITS], ids=("fsdp", "units"))
def test_no_step_is_faster_with_copies_of_shards(software: Software, slower: float) -> None:
    for model, size in product((DENSE, MOE), (16, 64)):
        job = workload(model, global_batch_size=size, target="any")
        made = on_slow_network(replace(job, cluster=IN_FOURS, software=software), slower)
        plans = [
            ParallelStrategy(
                dp=16, zero_stage=zero, optimizer_shard_size=shards, ep=ep, features=DEFAULT_FEATURES & ~OVERLAPS | overlaps
            )
            for zero, shards, ep in product((1, 2, 3), (0, 2, 4, 8), (1, 2) if model.moe else (1,))
            for overlaps in (Feature(0), Feature.OVERLAP_GRAD_REDUCE, Feature.OVERLAP_PARAM_GATHER, OVERLAPS)
        ]
        priced = priced_batch(made, StrategyBatch.of(plans), CONSTANTS)
        played_s = simulate(made, StrategyBatch.of(plans), CONSTANTS, memory=False).step_time_s
        assert (least_step_times_s(priced, work(priced)).step_s <= played_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("shards", [4, 8], ids=("copies leave a domain", "shards leave it"))
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_copies_of_shards_nearly_reach_the_bound_too(shards: int, micro_batches: int) -> None:
    job = workload(DENSE, global_batch_size=16 * micro_batches, target="any")
    made = replace(job, cluster=BARELY_JOINED, software=UNITS)
    plan = StrategyBatch.of([ParallelStrategy(dp=16, zero_stage=2, optimizer_shard_size=shards)])
    priced = priced_batch(made, plan, CONSTANTS)
    played_s = simulate(made, plan, CONSTANTS, memory=False).step_time_s[0]
    assert least_exchange(priced).whole_s[0] > 0.5 * played_s
    assert 0.95 * played_s < least_step_times_s(priced, work(priced)).step_s[0] <= played_s


def test_a_measured_collective_that_grows_faster_than_its_bytes_gives_no_bound() -> None:
    made = workload(DENSE, global_batch_size=64, target="any")
    plans = [ParallelStrategy(dp=8)]

    def whole_s(times_s: tuple[float, ...]) -> float:
        curve = CollectiveCurve("all_gather", 8, (1e6, 2e6, 4e6), times_s, "test")
        profile = made.cluster.profile
        tiers = tuple(replace(tier, curves=(curve,)) for tier in profile.tiers)
        measured = replace(made, cluster=replace(made.cluster, profile=replace(profile, tiers=tiers)))
        return float(least_exchange(priced_batch(measured, StrategyBatch.of(plans), CONSTANTS)).whole_s[0])

    assert whole_s((1e-3, 1.9e-3, 3.7e-3)) > 0.0
    assert whole_s((1e-3, 1.9e-3, 3.9e-3)) == 0.0

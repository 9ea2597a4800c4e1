"""Many placements at once say what pricing them one by one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import ParallelStrategy, Placement, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Task, TrainingTask
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import closed_form, estimate, lower_bound_s
from cost_models.step.placing import Alternatives, fitting, least_step_times_s, lower_bounds_s, paces, work
from cost_models.step.priced_groups import PricedBatch, priced_batch
from tests.placements import placements
from tests.search_workloads import DENSE, MOE, WINDOWED
from tests.workloads import constants, workload

CONSTANTS = constants()
BESIDE = replace(CONSTANTS, host_micro_batch_s=0.003, accumulation_bytes=100.0)  # much work beside the passes
ADAPTERS = Adapters(16, 16.0, tuple(MEGATRON_MODULES))
MODELS = (DENSE, replace(MOE, mtp_num_layers=1), replace(WINDOWED, num_layers=12))
MERGED = DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP
RECOMPUTED: tuple[dict[str, Any], ...] = (
    {},
    {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1},
    {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 1},
)


def job(model: ModelShape) -> Workload:
    return workload(model, global_batch_size=64, target="any")


def under(plans: Sequence[ParallelStrategy], placement: Placement) -> StrategyBatch:
    return StrategyBatch.of([replace(plan, **placement._asdict()) for plan in plans])


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Workload, list[ParallelStrategy], list[Placement]]:
    """Strategies that share a pipeline, and placements of its layers."""
    schedule = draw(st.sampled_from([each for each in Schedule if each is not Schedule.NONE]))
    pp = draw(st.sampled_from((2, 4) if schedule is Schedule.DUALPIPE else (2, 3, 4)))
    vpp = draw(st.integers(2, 3)) if schedule is Schedule.INTERLEAVED else 2 if schedule.rules.is_vee else 1
    model = replace(draw(st.sampled_from(MODELS)), num_layers=draw(st.integers(pp * vpp, 12)))
    ep = 2 if model.moe else 1
    merge = model.moe is not None and draw(st.booleans())
    shape = ParallelStrategy(pp=pp, vpp=vpp, schedule=schedule, ep=ep, features=MERGED if merge else DEFAULT_FEATURES)
    plans = [
        replace(shape, dp=dp, tp=tp, micro_batch_size=size, **extent)
        for dp, tp, size in ((2, 1, 1), (4, 2, 1), (2, 1, 2))
        for extent in RECOMPUTED
    ]
    if schedule is Schedule.INTERLEAVED:
        plans.append(replace(plans[0], microbatch_group_size_per_vp_stage=pp + 1))
    drawn = draw(st.lists(placements(model.num_layers, pp, vpp), min_size=1, max_size=4))
    return job(model), plans, [Placement(layout, before if model.mtp_num_layers else 0) for layout, before in drawn]


def own_pace_s(priced: PricedBatch, stages: Stages) -> Floats:
    """What the closed form multiplies with the number of micro batches, but for sends and accumulation."""
    group = priced.group(stages)
    if group.slots_s is not None:
        beside_s: Floats = group.p2p_s + group.sharded.accumulation_s.max(axis=0)
        return group.slots_s - beside_s
    times = group.rank.pair if stages.merge_pairs else group.rank.whole
    slowest: Floats = (times - group.sent_fraction * group.p2p_s - group.sharded.accumulation_s).max(axis=0)
    return stages.passes_fraction * slowest


def stages_under(priced: PricedBatch, plans: list[ParallelStrategy], several: list[Placement]) -> list[Stages]:
    """Ranks of the pipeline under each placement, one after the other."""
    batches = [priced.placed(under(plans, each)).groups(merge=True, tables=False) for each in several]
    return [next(groups)[1].stages for groups in batches]


@given(pipelines())
@settings(max_examples=60)
def test_the_pace_of_many_placements_is_that_of_each_in_closed_form(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    # What modules before the head send on is a send, too.
    several = [placement._replace(mtp_before_head=0) for placement in several]
    priced = priced_batch(made, StrategyBatch.of(plans), CONSTANTS)
    found = paces(priced, Alternatives(priced.under(several)))
    assert found.steady_s.shape == found.busiest_s.shape
    assert (found.busiest_s <= found.steady_s * (1 + 1e-12)).all()
    for number, each in enumerate(stages_under(priced, plans, several)):
        assert found.steady_s[number][found.of_row] == pytest.approx(own_pace_s(priced, each), rel=1e-9)


@given(pipelines())
@settings(max_examples=30)
def test_strategies_share_a_pace_where_layers_cost_the_same(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    batch = StrategyBatch.of([*plans, *plans])
    priced = priced_batch(made, batch, CONSTANTS)
    found = paces(priced, Alternatives(priced.under(several)))
    assert found.of_row.tolist()[: len(plans)] == found.of_row.tolist()[len(plans) :]
    assert found.steady_s.shape[1] <= len(plans)


@given(pipelines(), st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_a_placement_fits_where_its_estimate_does(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]], quantile: float
) -> None:
    made, plans, several = case
    # Whether modules share the embedding of the first stage is looked up in the strategy.
    several = [placement._replace(mtp_before_head=0) for placement in several]
    peaks = [estimate(made, under(plans, each), CONSTANTS).peak_memory_bytes for each in several]
    profile = replace(made.cluster.profile, usable_hbm_bytes=float(np.quantile(np.stack(peaks), quantile)))
    tight = replace(made, cluster=replace(made.cluster, profile=profile))
    priced = priced_batch(tight, StrategyBatch.of(plans), CONSTANTS)
    found = fitting(priced, Alternatives(priced.under(several)))
    assert found.shape == (len(several), len(plans))
    for fits, each in zip(found, several, strict=True):
        assert fits.tolist() == estimate(tight, under(plans, each), CONSTANTS).fits.tolist()


@given(pipelines())
@settings(max_examples=40)
def test_no_step_is_faster_than_its_pace_with_fill_and_drain(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    fewest = {Schedule.ZBV: 2, Schedule.DUALPIPE_V: 2, Schedule.DUALPIPE: 2}.get(plans[0].schedule, 1) * plans[0].pp + 1
    plans = [plan for plan in plans if 64 // (plan.dp * plan.micro_batch_size) >= fewest][:3]
    if not plans:
        return
    priced = priced_batch(made, StrategyBatch.of(plans), BESIDE)
    bounds_s = paces(priced, Alternatives(priced.under(several)), to_beat_s=1e9)
    plain_s = paces(priced, Alternatives(priced.under(several)))
    assert (bounds_s.least_step_s >= plain_s.least_step_s * (1 - 1e-9)).all()
    for bound_s, each in zip(bounds_s.least_step_s[:, bounds_s.of_row], several, strict=True):
        simulated = simulate(made, under(plans, each), BESIDE, memory=False)
        assert (bound_s <= simulated.step_time_s).all()


@given(pipelines())
@settings(max_examples=30)
def test_no_placement_beats_the_least_step_time(case: tuple[Workload, list[ParallelStrategy], list[Placement]]) -> None:
    made, plans, several = case
    priced = priced_batch(made, StrategyBatch.of(plans), BESIDE)
    of_all = work(priced)
    found = paces(priced, Alternatives(priced.under(several)))
    whatever = least_step_times_s(priced, of_all)
    placed = least_step_times_s(priced, of_all, found.steady_s[:, found.of_row], found.busiest_s[:, found.of_row])
    fewest = {Schedule.ZBV: 2, Schedule.DUALPIPE_V: 2, Schedule.DUALPIPE: 2}.get(plans[0].schedule, 1) * plans[0].pp + 1
    enough = [number for number, plan in enumerate(plans) if 64 // (plan.dp * plan.micro_batch_size) >= fewest][:2]
    for number, each in enumerate(several):
        batch = under(plans, each)
        closed_s = estimate(made, batch, BESIDE).step_time_s * (1 + 1e-9)
        assert (whatever.closed_form_s <= closed_s).all()
        assert (placed.closed_form_s[number] <= closed_s).all()
        played_s = simulate(made, batch.take(np.array(enough)), BESIDE).step_time_s * (1 + 1e-9)
        assert (whatever.step_s[enough] <= played_s).all()
        assert (placed.step_s[number][enough] <= played_s).all()


@pytest.mark.parametrize("task", [TrainingTask(), TrainingTask(Task.LORA, ADAPTERS)], ids=("pre-training", "lora"))
def test_bounds_count_the_host_and_the_gradients_of_layers_beside_the_passes(task: TrainingTask) -> None:
    made = job(replace(MOE, num_layers=12))
    made = replace(made, training=replace(made.training, task=task))
    plans = [ParallelStrategy(pp=2, schedule=Schedule.ZB2P, dp=2, ep=2)]  # nothing fills or drains the pipeline
    priced = priced_batch(made, StrategyBatch.of(plans), BESIDE)
    group = priced.group(stages_under(priced, plans, [Placement(((6, 6),))])[0])
    added_s = (group.stages.num_ranks * group.sharded.accumulation_s).sum(axis=0)  # of all ranks, with embedding and head
    count = 64 / 2
    of_passes_s = count * work(priced).least_s / 2 + BESIDE.step_overhead_s
    beside_s = least_step_times_s(priced, work(priced)).step_s - of_passes_s
    most_s = count * (added_s / 2 + group.host_micro_batch_s)
    assert group.host_micro_batch_s[0] > 0.0
    assert (beside_s <= most_s * (1 + 1e-9)).all()
    assert (beside_s > 0.8 * count * added_s / 2 + count * group.host_micro_batch_s * (1 - 1e-9)).all()
    every = Alternatives(priced.under([Placement(((6, 6),)), Placement(((5, 7),))]))
    timed_s, untimed_s = (paces(priced, every, to_beat_s).least_step_s[:, 0] for to_beat_s in (1e9, np.inf))
    assert (timed_s - untimed_s >= 0.8 * count * (added_s / 2 + group.host_micro_batch_s)).all()


@given(pipelines())
@settings(max_examples=60)
def test_the_bounds_of_many_placements_are_those_of_each_without_the_optimizer(
    case: tuple[Workload, list[ParallelStrategy], list[Placement]],
) -> None:
    made, plans, several = case
    several = [placement._replace(mtp_before_head=0) for placement in several]
    priced = priced_batch(made, StrategyBatch.of(plans), CONSTANTS)
    chosen = np.arange(len(several))[::-1]
    found = lower_bounds_s(priced, Alternatives(priced.under(several)), chosen)
    assert found.shape == (len(several), len(plans))
    for bounds_s, number in zip(found, chosen.tolist(), strict=True):
        for rows, group in priced.placed(under(plans, several[number])).groups(merge=True, tables=False):
            own_s = lower_bound_s(group, closed_form(group, CONSTANTS), CONSTANTS) - group.sharded.optimizer_s
            assert bounds_s[rows] == pytest.approx(own_s, rel=1e-9)

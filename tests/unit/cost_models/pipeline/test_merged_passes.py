"""Layers that meet in merged passes, by hand and against the orders that the simulation plays."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.layer.pairs import PairSavings, pair_savings
from cost_models.pipeline.merged_passes import MergedPasses
from cost_models.pipeline.stages import Stages, stages_of
from cost_models.schedules.orders import rank_orders
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.simulation.program import TaskClass
from cost_models.simulation.step_times import GroupTasks
from cost_models.step.priced_groups import PricedGroup, priced_groups
from tests.unit.cost_models.layer.test_layer_costs import cost
from tests.workloads import SPARSE, constants, workload

MERGED: dict[str, Any] = {
    "ep": 8,
    "dp": 8,
    "dispatcher": Dispatcher.ALLTOALL,
    "features": DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP,
}
# Dense with dense, dense with MoE; MoE with dense, MoE with MoE.
ONE = PairSavings(((None, np.array([0.1])), (np.array([0.01]), np.array([1.0]))))


def stages(pp: int, vpp: int, schedule: Schedule, dense: int = 2, layers: int = 8, **shape: Any) -> Stages:
    assert SPARSE.moe is not None
    moe = replace(SPARSE.moe, num_leading_dense_layers=dense)
    model = replace(SPARSE, num_layers=layers, moe=moe, **shape)
    return stages_of(model, pp, vpp, schedule=schedule, merge_pairs=True, merge=False)


def group(pp: int = 2, values: dict[str, float] | None = None, **strategy: Any) -> PricedGroup:
    given = {"pp": pp, "schedule": Schedule.INTERLEAVED, "vpp": 2, **MERGED, **strategy}
    rows = StrategyBatch.of([ParallelStrategy(**given)])
    ((_, found),) = priced_groups(workload(SPARSE), rows, constants(**(values or {})), merge=False, tables=False)
    return found


def test_layers_meet_first_to_last() -> None:
    # Two ranks of two chunks: rank 0 holds D D and M M. The forward D D meets the backward M M, or its own, which saves nothing.
    found = MergedPasses(stages(2, 2, Schedule.INTERLEAVED), ONE)
    assert [[float(found.of(f, b)[0, 0]) for b in (0, 1)] for f in (0, 1)] == [[0.0, 0.2], [0.02, 2.0]]
    assert [[float(found.of(f, b)[1, 0]) for b in (0, 1)] for f in (0, 1)] == [[2.0, 2.0], [2.0, 2.0]]
    # D M M M with itself, reversed: D with M, M with M, M with M, M with D.
    alone = MergedPasses(stages(2, 1, Schedule.ONE_F_ONE_B, dense=1), ONE)
    assert float(alone.of(0, 0)[0, 0]) == pytest.approx(0.1 + 1.0 + 1.0 + 0.01)


def test_a_layer_without_a_partner_runs_alone() -> None:
    # The head's chunk holds two MoE layers and an MTP module, its rank's other chunk two layers.
    found = MergedPasses(stages(2, 2, Schedule.INTERLEAVED, mtp_num_layers=1), ONE)
    assert [[float(found.of(f, b)[1, 0]) for b in (0, 1)] for f in (0, 1)] == [[2.0, 2.0], [2.0, 3.0]]


def test_worked_pair_of_a_dense_forward_and_a_moe_backward() -> None:
    # All that the MoE's backward exposes alone hides behind the dense layer; nothing is stretched.
    dense, moe = cost(SPARSE, **MERGED), cost(SPARSE, moe=True, **MERGED)
    (nothing, dense_moe), (moe_dense, moe_moe) = pair_savings((dense, moe), np.array([True]), 0.0).by_kinds
    assert nothing is None
    assert dense_moe == pytest.approx(moe.backward["ep_comm"])
    assert moe_dense == pytest.approx(moe.forward["ep_comm"])
    assert moe_moe == pytest.approx(moe.forward["ep_comm"] + moe.backward["ep_comm"])
    priced = group()
    of = TaskClass(Pass.PAIR, 0, 0, 1)
    assert float(GroupTasks(priced).saving_s(of)[0]) == pytest.approx(2.0 * float(moe.backward["ep_comm"][0]))


def test_nothing_is_saved_that_the_host_takes_all_the_same() -> None:
    # 10 ms a kernel: both passes of a pair are dispatched one after the other, whatever they hide.
    values = {"host_kernel_s": 1e-2}
    moe = cost(SPARSE, moe=True, values=values, **MERGED)
    assert pair_savings((moe,), np.array([True]), 0.0).by_kinds[0][0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "pp", "vpp", "size"),
    [
        (Schedule.INTERLEAVED, 4, 2, 0),
        (Schedule.INTERLEAVED, 4, 3, 6),
        (Schedule.INTERLEAVED, 2, 4, 4),
        (Schedule.DUALPIPE, 4, 1, 0),
        (Schedule.DUALPIPE_V, 4, 2, 0),
    ],
)
def test_between_fill_and_drain_pairs_are_those_of_the_order(schedule: Schedule, pp: int, vpp: int, size: int) -> None:
    held = stages(pp, vpp, schedule, dense=5, layers=24)
    found = MergedPasses(held, ONE)
    m = 40 * (size or pp)
    of = PipelineShape(schedule, pp, vpp, m, size, merge_pairs=True)
    steady = found.steady_s(np.array([size or pp]))[:, 0]
    for rank, order in enumerate(rank_orders(of)):
        pairs = [task for task in order if task.kind is Pass.PAIR]
        met = [float(found.of(task.chunk, task.backward_chunk)[rank, 0]) for task in pairs]
        assert np.mean(met) * held.num_chunks == pytest.approx(steady[rank], rel=0.05)
        for chunk, most in enumerate(found.most_of_chunk_s):
            assert max(s for task, s in zip(pairs, met, strict=True) if task.chunk == chunk) <= most[rank, 0]


@pytest.mark.parametrize("schedule", Schedule)
def test_only_schedules_whose_orders_have_pairs_save_anything(schedule: Schedule) -> None:
    # A schedule that runs each pass on its own has nothing to hide behind: ZB-V once saved more than there was to expose.
    pp, vpp = (1 if schedule is Schedule.NONE else 2), {"several": 2, "two": 2}.get(schedule.rules.chunks, 1)
    orders = rank_orders(PipelineShape(schedule, pp, vpp, 16, merge_pairs=True))
    assert any(task.kind is Pass.PAIR for order in orders for task in order) == (schedule.rules.pairs is not None)
    assert (group(pp, schedule=schedule, vpp=vpp).merged is not None) == (schedule.rules.pairs is not None)

"""Prediction modules on a virtual stage before that of the head, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.pipeline.stages import stages_of
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from cost_models.step.priced_groups import PricedGroup, priced_groups
from cost_models.step.stage_costs import stage_costs
from tests.workloads import DENSE, constants, workload

PREDICTING = replace(DENSE, mtp_num_layers=2)
LAYOUT = ((3, 3), (2, 0))  # two ranks of two chunks: the last virtual stage has the head alone
ROW = ParallelStrategy(pp=2, vpp=2, schedule=Schedule.INTERLEAVED, layer_layout=LAYOUT)


def group_of(job: Workload, row: ParallelStrategy, p2p_exposed_fraction: float = 1.0) -> PricedGroup:
    values = constants(p2p_exposed_fraction=p2p_exposed_fraction)
    ((_, group),) = priced_groups(job, StrategyBatch.of([row]), values, merge=False, tables=True)
    return group


@pytest.mark.parametrize(
    ("schedule", "vpp", "before_head", "held"),
    [
        (Schedule.ONE_F_ONE_B, 1, 0, [[0], [0], [0], [1]]),
        (Schedule.ONE_F_ONE_B, 1, 1, [[0], [0], [1], [0]]),
        (Schedule.INTERLEAVED, 2, 1, [[0, 0], [0, 0], [0, 1], [0, 0]]),
        (Schedule.INTERLEAVED, 2, 4, [[0, 0], [0, 0], [0, 0], [1, 0]]),
        (Schedule.ZBV, 2, 0, [[0, 1], [0, 0], [0, 0], [0, 0]]),  # the V ends where it begins
        (Schedule.ZBV, 2, 1, [[0, 0], [0, 1], [0, 0], [0, 0]]),
        (Schedule.DUALPIPE, 1, 1, [[0, 0], [0, 1], [1, 0], [0, 0]]),  # and the mirror image
    ],
)
def test_modules_run_so_many_virtual_stages_before_the_head(
    schedule: Schedule, vpp: int, before_head: int, held: list[list[int]]
) -> None:
    stages = stages_of(PREDICTING, 4, vpp, schedule=schedule, mtp_before_head=before_head, merge=False)
    assert stages.has_mtp.tolist() == held


def test_every_hop_between_modules_and_head_carries_their_outputs_but_not_the_turn_of_a_v() -> None:
    straight = stages_of(PREDICTING, 4, 1, ((4, 4, 0, 0),), mtp_before_head=2, merge=False)
    forward, backward = straight.relays[..., 0].tolist()
    assert (forward, backward) == ([0, 2, 2, 0], [0, 0, 2, 2])
    vee = stages_of(PREDICTING, 2, 2, ((8, 0), (0, 0)), schedule=Schedule.ZBV, mtp_before_head=3, merge=False)
    # Virtual stages 0 to 3 are on ranks 0, 1, 1, 0: 0 -> 1 and 2 -> 3 are hops.
    assert vee.relays[0].tolist() == [[2, 0], [0, 2]]
    assert vee.relays[1].tolist() == [[0, 2], [2, 0]]
    assert stages_of(PREDICTING, 4, 1).relays.sum() == 0


def test_ranks_that_pass_outputs_of_modules_on_are_not_alike_with_ranks_that_do_not() -> None:
    # Of eight ranks of a layer each, the modules run on the fifth: six and seven relay, two to four do not.
    merged = stages_of(replace(PREDICTING, num_layers=8), 8, 1, ((1,) * 8,), mtp_before_head=3)
    assert merged.ranks == ((0,), (1, 2, 3), (4,), (5, 6), (7,))


def test_the_head_runs_for_the_modules_where_it_is_and_they_run_where_they_are() -> None:
    job = workload(PREDICTING)
    beside, before = (group_of(job, replace(ROW, mtp_before_head=k)) for k in (0, 1))
    layer, edges = before.priced.layers[0], before.priced.edges
    module = 2 * float(layer.forward_s[0] + edges.mtp_projection_s[0])
    heads = 3 * float(edges.head_forward_s[0])
    send = float(before.p2p_s[0]) / 4  # two chunks send a forward and a backward each
    one = [float(group.chunks[1].forward[rank, 0]) for group in (beside, before) for rank in (0, 1)]
    two = 2 * float(layer.forward_s[0])
    # Rank 0 has two layers in its second chunk; before the head, the two modules too, whose outputs it sends on.
    assert one == pytest.approx([two, module + heads, two + module + 2 * send, heads])
    backward = [float(before.chunks[1].backward[rank, 0]) for rank in (0, 1)]
    again = 2 * float(layer.backward_s[0]) + 2 * float(layer.backward_s[0] + 2 * edges.mtp_projection_s[0])
    assert backward == pytest.approx([again, 3 * float(edges.head_backward_s[0]) + 2 * send])


def test_parameters_of_modules_move_with_them() -> None:
    job = workload(PREDICTING)
    costs = [stage_costs(job, replace(ROW, mtp_before_head=k), constants()) for k in (0, 1)]
    weights = [each.memory_bytes["weights"] for each in costs]
    layer = 4 * 1024**2 + 3 * 1024 * 4096 + 2 * 1024
    module = 2 * (layer + 2 * 1024**2 + 3 * 1024) + 32000 * 1024 + 1024  # with one copy of the embedding, and the final norm
    assert (weights[1] - weights[0]).tolist() == [2 * module, -2 * module]


def test_a_stage_of_nothing_passes_on_what_it_gets() -> None:
    job = workload(PREDICTING)
    row = ParallelStrategy(pp=4, schedule=Schedule.ONE_F_ONE_B, layer_layout=((4, 4, 0, 0),), mtp_before_head=2)
    group = group_of(job, row)
    assert group.chunks[0].forward[2, 0] == pytest.approx(2 * group.p2p_s[0] / 2)
    held = stage_costs(job, row, constants())
    # Two micro batches of an input and of two outputs of modules wait there for their backward.
    assert held.memory_bytes["recompute_checkpoints"][2] == 2 * 3 * 2 * 2048 * 1024


@pytest.mark.parametrize("price", [estimate, simulate])
def test_a_lighter_last_stage_is_faster(price) -> None:  # type: ignore[no-untyped-def]
    job = workload(replace(PREDICTING, vocab_size=128000), global_batch_size=32)
    rows = [replace(ROW, mtp_before_head=k) for k in (0, 1)]
    alone, together = price(job, StrategyBatch.of(rows[::-1]), constants()).step_time_s
    assert alone < together


def with_devices(model: ModelShape) -> Workload:
    job = workload(model)
    return replace(job, cluster=replace(job.cluster, num_devices=2))


def test_without_modules_or_a_second_stage_there_is_one_form() -> None:
    assert canonical(with_devices(PREDICTING), replace(ROW, mtp_before_head=1)).mtp_before_head == 1
    assert canonical(with_devices(DENSE), replace(ROW, mtp_before_head=1)).mtp_before_head == 0
    assert canonical(with_devices(PREDICTING), ParallelStrategy(dp=2, mtp_before_head=1)).mtp_before_head == 0
    batch = StrategyBatch.of([replace(ROW, mtp_before_head=1)])
    assert batch.row(0).mtp_before_head == 1
    assert np.array_equal(batch.mtp_before_head, [1])

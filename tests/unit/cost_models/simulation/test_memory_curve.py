"""Memory over time by hand, and its highest point against the function that decides what fits."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from cost_models.constants import prior_constants
from cost_models.memory.peak import held_activations, memory_estimate
from cost_models.pipeline.stages import Stages
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.memory_curve import MemoryCurve, memory_curves
from cost_models.simulation.replay import replay
from cost_models.step.priced_groups import priced_groups
from tests.property.test_simulation import jobs
from tests.worked_examples import worked
from tests.workloads import DENSE, constants, workload

SMALL_HEAD = replace(DENSE, vocab_size=512)
ONE = Schedule.ONE_F_ONE_B


def allocated(job: Workload, row: ParallelStrategy) -> tuple[list[float], Stages]:
    """``allocated`` of every rank, by the memory function."""
    values = prior_constants(job.cluster.profile.family)
    ((_, group),) = priced_groups(job, StrategyBatch.of([row]), values, merge=False, tables=True)
    priced, sharded = group.priced, group.sharded
    held = held_activations(job, group.stages, group.batch, group.num_microbatches, priced.activations)
    memory = memory_estimate(job, group.batch, group.stages, sharded.parameters, sharded.trained, sharded.states, held, values)
    return memory.allocated[:, 0].tolist(), group.stages


def curves(job: Workload, row: ParallelStrategy) -> list[MemoryCurve]:
    return memory_curves(job, replay(job, row, prior_constants(job.cluster.profile.family)))


@given(jobs())
@settings(max_examples=40)
def test_the_highest_point_is_what_the_memory_function_says(given_job: tuple[Workload, list[ParallelStrategy]]) -> None:
    job, rows = given_job
    expected, stages = allocated(job, rows[0])
    for rank, curve in enumerate(curves(job, rows[0])):
        assert curve.times_s == sorted(curve.times_s)
        assert max(curve.allocated_bytes) <= expected[rank] * (1 + 1e-12)
        # The rank of the head may be heaviest while it runs another chunk than the head's.
        if stages.num_chunks == 1 or not stages.has_head[rank].any():
            assert max(curve.allocated_bytes) == pytest.approx(expected[rank], rel=1e-12)


def test_1f1b_of_two_ranks_by_hand() -> None:
    # Eight layers, two micro batches. Rank 0 runs F0 F1 B0 B1, rank 1 F0 B0 F1 B1: one and two micro batches of four layers held.
    job = workload(SMALL_HEAD, seq_length=16384, global_batch_size=2)
    row = ParallelStrategy(pp=2, schedule=Schedule.ONE_F_ONE_B)
    played = replay(job, row, constants())
    kept = 4 * float(played.group.priced.activations[0].saved_bytes[0])
    first, second = memory_curves(job, played)
    base = first.allocated_bytes[0]
    # While a task runs, its layer's buffers come on top; between tasks only what is kept is there.
    buffers = first.allocated_bytes[1] - base - kept
    assert buffers > 0
    waits = [base, base + kept + buffers, base + 2 * kept + buffers, base + 2 * kept]
    assert first.allocated_bytes[:5] == pytest.approx([*waits, base + 2 * kept + buffers])
    assert max(second.allocated_bytes) < max(first.allocated_bytes)
    assert second.allocated_bytes[0] == second.allocated_bytes[1] - kept - buffers  # F0 on rank 1
    # Both optimizers begin together, when the last backward has ended on rank 0.
    assert first.times_s[-2:] == second.times_s[-2:]
    assert first.times_s[-2] == max(played.ends_s) + max(played.reduce_s)
    assert first.allocated_bytes[-1] == base


def test_gpipe_climbs_to_all_micro_batches_and_1f1b_does_not() -> None:
    job = workload(SMALL_HEAD, seq_length=16384, global_batch_size=8)
    row = ParallelStrategy(pp=2, schedule=Schedule.GPIPE)
    kept = 4 * float(replay(job, row, constants()).group.priced.activations[0].saved_bytes[0])
    both = [[max(each.allocated_bytes) for each in curves(job, replace(row, schedule=s))] for s in (row.schedule, ONE)]
    assert both[0][0] - both[1][0] == pytest.approx(6 * kept)
    assert both[0][1] - both[1][1] - 7 * kept == worked("waiting-losses")


def test_a_recomputed_layer_is_expanded_while_backwards_run() -> None:
    job = workload(SMALL_HEAD, seq_length=16384, global_batch_size=1)
    row = ParallelStrategy(recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
    played = replay(job, row, constants())
    (curve,) = memory_curves(job, played)
    activations = played.group.priced.activations[0]
    forward, backward = curve.allocated_bytes[1:3]
    assert backward - forward == pytest.approx(float(activations.unreduced_bytes[0]))
    assert forward - curve.allocated_bytes[0] >= 8 * float(activations.input_bytes[0])


def test_what_waits_for_its_weight_gradient_is_kept() -> None:
    job = workload(SMALL_HEAD, seq_length=16384, global_batch_size=8)
    row = ParallelStrategy(pp=4, schedule=Schedule.ZB1P)
    whole, split = (curves(job, replace(row, schedule=s)) for s in (Schedule.ONE_F_ONE_B, Schedule.ZB1P))
    kept = 2 * float(replay(job, row, constants()).group.priced.activations[0].saved_bytes[0])
    more = [max(b.allocated_bytes) - max(a.allocated_bytes) for a, b in zip(whole, split, strict=True)]
    # Two layers' inputs of linear layers and gradients of their outputs, 2 bytes each: both norms' outputs, q, k and v, and
    # attention's output, gate, up and their product, and the blocks' outputs. The head's are 2 bytes a logit and its input. The
    # last rank holds the most while a backward runs: later its own micro batch holds less.
    waiting = 2 * 16384 * 2 * (2 * 1024 + 4 * 1024 + 3 * 4096 + 2 * 1024)
    head = 16384 * (2 * 512 + 2 * 1024)
    assert waiting < kept
    assert more == pytest.approx([0, waiting, 2 * waiting, 3 * (waiting + head)])


def test_what_is_computed_again_stays_for_the_weight_gradient() -> None:
    # Two layers a rank, all recomputed; rank 3 of ZB1P has three micro batches between input and weight gradient, then four.
    job = workload(SMALL_HEAD, seq_length=16384, global_batch_size=8)
    again = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1}
    row = ParallelStrategy(pp=4, schedule=Schedule.ZB1P, **again)  # type: ignore[arg-type]
    activations = replay(job, row, constants()).group.priced.activations[0]
    whole, split = (max(curves(job, replace(row, schedule=s))[2].allocated_bytes) for s in (ONE, Schedule.ZB1P))
    checkpoints, waiting = 2 * float(activations.input_bytes[0]), 2 * float(activations.waiting_bytes[0])
    # Rank 2 holds two checkpoints under 1F1B; here one, and three whole sets.
    assert split - whole == pytest.approx(3 * waiting + checkpoints - 2 * checkpoints)


def test_ranks_whose_steps_overlap_do_not_wait_for_each_other() -> None:
    job = workload(SMALL_HEAD, global_batch_size=16)
    begins = {
        schedule: {curve.times_s[-2] for curve in curves(job, ParallelStrategy(pp=4, schedule=schedule))}
        for schedule in (Schedule.ZB1P, Schedule.ZB2P)
    }
    assert [len(each) for each in begins.values()] == [1, 4]

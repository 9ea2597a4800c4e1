"""Stages of a pipeline under PyTorch's FSDP2, as torch 2.13 ran them (``python -m scripts.oracle.pipelined_fsdp``).

One step of PyTorch's own 1F1B or interleaved schedule on four replicas a stage; each chunk has two layers of 524,288 weights. A
layer's all-gather had 1,048,576 bytes of BF16 and its reduce-scatter 2,097,152 of FP32. In every case each layer's gradients were
scattered once, and at the end of a backward all layers of a rank had whole gradients.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.memory.model_states import StageParameters, model_states, scatters_each_micro_batch
from cost_models.memory.peak import gathered_bytes, whole_weights_bytes
from cost_models.shapes.fully_sharded import gathers_a_step, held_chunks_fraction, keeps_whole_stages
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import gradient_exchange
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import network, priced, workload

FREES, KEEPS = 3, 2  # zero_stage: reshard_after_forward true, false
LAYER = 2 * 256 * 1024


def job(micro_batches: int = 8, **software: object) -> Workload:
    return workload(cluster=gpu(), stack="fsdp", global_batch_size=4 * micro_batches, **software)


def rows(zero_stage: int, pp: int = 4, vpp: int = 1) -> StrategyBatch:
    schedule = Schedule.NONE if pp == 1 else Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B
    return StrategyBatch.of([ParallelStrategy(pp=pp, vpp=vpp, dp=4, zero_stage=zero_stage, schedule=schedule)])


def stage(layers: int) -> StageParameters:
    held = np.array([[float(layers * LAYER)]])
    sizes = (LAYER / 2, LAYER / 8, LAYER, 0.0, 0.0, layers)
    return StageParameters(held, np.zeros_like(held), *(np.array([[float(each)]]) for each in sizes))


@pytest.mark.parametrize(
    ("pp", "vpp", "micro_batches", "kept", "freed"),
    [
        (2, 1, 4, 1, 5),
        (4, 1, 4, 1, 5),
        (4, 1, 8, 1, 9),
        (4, 1, 16, 1, 17),
        (2, 2, 4, 1, 5),
        (2, 2, 8, 1, 9),
        (2, 3, 8, 1, 9),
        (2, 4, 8, 3.75, None),  # more than three chunks: freed weights were gathered 9.5 to 10.75 times
        (4, 8, 16, 5.875, None),
    ],
)
def test_a_layer_is_gathered_as_often_as_it_was(pp: int, vpp: int, micro_batches: int, kept: float, freed: float | None) -> None:
    assert gathers_a_step(job(micro_batches), rows(KEEPS, pp, vpp)) == kept
    assert gathers_a_step(job(micro_batches), rows(FREES, pp, vpp)) == (freed or micro_batches + 1)


@pytest.mark.parametrize(
    ("pp", "vpp", "micro_batches", "gathers"),
    [
        (4, 8, 64, 20.875),
        (4, 4, 64, 9.75),
        (8, 4, 64, 5.75),
        (4, 5, 32, 7.8),
        (8, 6, 8, 1.5),
        (8, 12, 128, 295 / 12),
        (4, 16, 64, 423 / 16),
    ],
)
def test_chunks_are_fetched_as_often_as_pytorchs_schedules_ask(pp: int, vpp: int, micro_batches: int, gathers: float) -> None:
    """The first rank's UNSHARD actions of ``ScheduleInterleaved1F1B``, over its chunks."""
    assert gathers_a_step(job(micro_batches), rows(KEEPS, pp, vpp))[0] == pytest.approx(gathers)


def test_three_chunks_are_held_at_once() -> None:
    assert [held_chunks_fraction(job(), rows(KEEPS, 2, vpp))[0] for vpp in (1, 2, 3, 4, 8)] == [1, 1, 1, 6 / 8, 6 / 16]
    assert worked("pipeline-gathers") == gathers_a_step(job(16), rows(KEEPS, 4, 8))
    before = job(16, year=2025.5)  # schedules before PyTorch 2.10 free nothing
    assert (held_chunks_fraction(before, rows(KEEPS, 4, 8))[0], gathers_a_step(before, rows(KEEPS, 4, 8))[0]) == (1, 1)


@pytest.mark.parametrize(("zero_stage", "gathers"), [(KEEPS, 1), (FREES, 9)])
def test_a_step_sends_what_was_sent(zero_stage: int, gathers: int) -> None:
    one = job()
    found = gradient_exchange(one, rows(zero_stage), stage(2), stage(0), np.zeros((1, 1)), network(one))
    rate = network(one).tiers[0].bandwidth_bytes_per_s
    assert found.reduce_s[0, 0] * rate == pytest.approx(3 / 4 * 2 * 2_097_152)
    assert found.gather_s[0, 0] * rate == pytest.approx(3 / 4 * 2 * 1_048_576 * gathers)
    assert found.num_reductions[0] == 1


def test_copies_of_a_group_of_shards_add_their_shards() -> None:
    """As executed: an all-reduce of 524,288 bytes, a quarter of a layer's gradients in FP32, behind every reduce-scatter."""
    one = job()
    times, rate = [], network(one).tiers[0].bandwidth_bytes_per_s
    for dp, size in ((8, 4), (4, 0)):
        plan = StrategyBatch.of([ParallelStrategy(pp=1, dp=dp, zero_stage=KEEPS, optimizer_shard_size=size)])
        again = replace(one, training=replace(one.training, global_batch_size=4 * dp))
        times.append(gradient_exchange(again, plan, stage(2), stage(0), np.zeros((1, 1)), network(again)))
    hybrid, alone = times
    assert (hybrid.num_reductions[0], hybrid.gather_s[0, 0]) == (4, alone.gather_s[0, 0])
    assert (hybrid.reduce_s - alone.reduce_s)[0, 0] * rate == pytest.approx(2 * 1 / 2 * 8 * 524_288)


@pytest.mark.parametrize("zero_stage", [KEEPS, FREES])
def test_a_stage_holds_what_it_held(zero_stage: int) -> None:
    one, its = job(), stage(2)
    states = model_states(one, rows(zero_stage), its)
    assert states.weights[0, 0] == 4 * 2 * LAYER / 4  # shards in FP32
    assert states.gradients[0, 0] == 2 * 2_097_152
    assert whole_weights_bytes(one, rows(zero_stage), its)[0, 0] == 2 * 1_048_576
    # the gradients of one layer in BF16, until its backward has ended
    assert gathered_bytes(one, rows(zero_stage), its, its)[0, 0] == 2 * 1_048_576 + 2 * LAYER


def test_other_stacks_and_stages_without_a_pipeline_free_their_weights() -> None:
    for zero_stage in (KEEPS, FREES):
        assert not keeps_whole_stages(job(), rows(zero_stage, pp=1))
        assert scatters_each_micro_batch(job(), rows(zero_stage, pp=1))
        assert not keeps_whole_stages(workload(stack="nemo"), rows(zero_stage))
    assert not keeps_whole_stages(job(), rows(1))
    assert scatters_each_micro_batch(workload(stack="nemo"), rows(FREES))


@given(
    pp=st.sampled_from([2, 4, 8]),
    vpp=st.integers(1, 8),
    rounds=st.integers(1, 8),
    year=st.sampled_from([None, 2025.0, 2026.5]),
)
def test_freed_weights_are_gathered_more_often_and_no_step_less(pp: int, vpp: int, rounds: int, year: float | None) -> None:
    now, more = (job(pp * count, year=year) for count in (rounds, rounds + 1))
    kept, freed = (gathers_a_step(now, rows(each, pp, vpp))[0] for each in (KEEPS, FREES))
    assert 1 <= kept <= freed
    assert all(
        gathers_a_step(more, rows(each, pp, vpp))[0] >= gathers_a_step(now, rows(each, pp, vpp))[0] for each in (KEEPS, FREES)
    )
    assert held_chunks_fraction(now, rows(KEEPS, pp, vpp))[0] * vpp == min(vpp, 3 if year is None or year > 2026 else vpp)


def test_a_whole_step_has_more_memory_and_less_traffic_than_sharded_stages() -> None:
    """Megatron's ZeRO-3 gathers and scatters with every micro batch, and holds two layers."""
    strategy = ParallelStrategy(pp=2, dp=4, zero_stage=FREES, schedule=Schedule.ONE_F_ONE_B)
    whole, sharded = (
        priced(replace(job(8), software=replace(job(8).software, stack=stack)), strategy) for stack in ("fsdp", "nemo")
    )
    kept = priced(job(8), replace(strategy, zero_stage=KEEPS))
    assert whole.allocated_peak_bytes[0] > sharded.allocated_peak_bytes[0]
    assert whole.allocated_peak_bytes[0] == kept.allocated_peak_bytes[0]
    assert kept.step_time_s[0] <= whole.step_time_s[0]

"""Megatron-FSDP gathers, scatters and holds what its own code did (``python -m scripts.oracle.megatron_fsdp``, core 0.19).

Eight layers of 524,288 weights between two tables of twice as many, over four ranks. In a step of three micro batches each layer
was gathered six times and scattered three times, each table gathered once and scattered three times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.memory.model_states import StageParameters, model_states
from cost_models.memory.peak import gathered_bytes, waiting_gradients_bytes, whole_weights_bytes
from cost_models.shapes.fully_sharded import layers_ahead, layers_queued
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import gradient_exchange
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import network, workload

LAYER, TABLE, LAYERS = 524_288.0, 1_048_576.0, 8
FREES, KEEPS = 3, 2  # optim_grads_params, optim_grads


def job(micro_batches: int = 3, dp: int = 4, **software: object) -> Workload:
    return workload(cluster=gpu(), global_batch_size=dp * micro_batches, **{"year": 2026.63, **software})


def rows(zero_stage: int = FREES, dp: int = 4, *, bf16: bool = False) -> StrategyBatch:
    features = DEFAULT_FEATURES | (Feature.GRAD_REDUCE_IN_BF16 if bf16 else Feature(0))
    return StrategyBatch.of(
        [ParallelStrategy(dp=dp, zero_stage=zero_stage, optimizer_shard_size=4 if dp > 4 else 0, features=features)]
    )


def stage(layers: int = LAYERS) -> StageParameters:
    numbers = (layers * LAYER + 2 * TABLE, 0.0, LAYER / 2, LAYER / 8, LAYER, LAYER / 2, 2 * TABLE, layers)
    return StageParameters(*(np.array([[float(each)]]) for each in numbers))


def exchanged(one: Workload, plan: StrategyBatch) -> tuple[float, float, float]:
    """Bytes that cross a rank's link in a step: scatters, gathers, and the all-reduce over copies, outside of layers."""
    found = gradient_exchange(one, plan, stage(), stage(0), np.zeros((1, 1)), network(one))
    rate = network(one).tiers[0].bandwidth_bytes_per_s
    return tuple(float(each[0, 0] * rate) for each in (found.reduce_s, found.gather_s, found.copies_s))


def test_tables_are_gathered_once_a_step_and_scattered_with_every_micro_batch() -> None:
    scattered, gathered, copied = exchanged(job(), rows())
    assert gathered == pytest.approx(3 / 4 * 2 * 2_097_152)
    assert scattered == pytest.approx(3 / 4 * 6 * 4_194_304)
    assert copied == 0.0
    assert exchanged(job(), rows(bf16=True))[0] == pytest.approx(3 / 4 * 6 * 2_097_152)


def test_whole_weights_are_gathered_once_a_step_and_their_gradients_scattered_with_every_micro_batch() -> None:
    scattered, gathered, _ = exchanged(job(), rows(KEEPS))
    assert gathered == pytest.approx(3 / 4 * 6 * 2_097_152)
    assert scattered == pytest.approx(3 / 4 * 18 * 4_194_304)


@pytest.mark.parametrize("zero_stage", [FREES, KEEPS])
def test_copies_of_shards_add_their_gradients_once_a_step(zero_stage: int) -> None:
    """Each shard once: 2 x 1,048,576 bytes of tables, 8 x 524,288 of layers."""
    alone, hybrid = exchanged(job(), rows(zero_stage)), exchanged(job(dp=8), rows(zero_stage, dp=8))
    assert hybrid[:2] == pytest.approx(alone[:2])
    assert hybrid[2] == pytest.approx(2 * 1 / 2 * (2 * 1_048_576 + 8 * 524_288))
    assert layer_keys(job(dp=8), rows(FREES, dp=8))[0].weight_copies[0] == 1  # layers do not, micro batch by micro batch


def test_copies_of_other_stacks_add_their_gradients_with_every_micro_batch() -> None:
    old = job(dp=8, year=2024.0)
    assert exchanged(old, rows(KEEPS, dp=8))[2] == 0.0
    assert layer_keys(old, rows(FREES, dp=8))[0].weight_copies[0] == 2


@pytest.mark.parametrize(("units", "ahead"), [(2, 1), (5, 3), (6, 3)])
def test_layers_are_gathered_ahead_as_they_were(units: int, ahead: int) -> None:
    """Half a billion parameters, here half of ``units`` layers. Executed: 4 (the tables') + 1 + ahead layers of weights."""
    assert layers_ahead(job(), np.array([[1e9 / units]]), np.array([[float(LAYERS)]]))[0, 0] == ahead


PADDED = 1.0078125  # a layer with 256 weights of a norm more, padded to rows of its longest tensor


@pytest.mark.parametrize(
    ("year", "room", "head", "beside_head", "later", "each", "executed"),
    [
        (2026.0, 1.168, 1.2265625, 0, 2, 1.0, 3.0),
        (2026.63, 2.5, 1.2265625, 2, 3, 1.0, 4.2265625),
        (2026.63, 4.75, 2.0, 3, 5, 1.0, 6.0),
        (2026.63, 1.3, 1.2265625, 1, 2, PADDED, 3.2421875),
        (2026.63, 1.3, 1.999, 1, 2, PADDED, 4.015625),
        (2026.63, 1.3, 2.9296875, 0, 2, PADDED, 3.9375),
    ],
)
def test_gradients_wait_as_they_did(
    year: float, room: float, head: float, beside_head: int, later: int, each: float, executed: float
) -> None:
    """``room``: layers of a billion parameters; ``head``: its size in layers; ``executed``: whole gradients held, in layers.

    Core 0.16 has room for two at least, the default that was executed in the last cases (``unit`` of the oracle is ``None``).
    """
    layer, number = np.array([[1e9 / room]]), np.array([[float(LAYERS)]])
    found = [layers_queued(job(year=year), rows(), layer, number, before * layer)[0, 0] for before in (head, 0.0)]
    assert found == [beside_head, later]
    assert max(head + (1 + beside_head) * each, (1 + later) * each) == pytest.approx(executed, abs=1e-3)


@pytest.mark.parametrize(
    ("year", "stage", "waiting"),
    [
        (2025.5, FREES, [1, 3]),
        (2025.5, KEEPS, [0, 0]),
        (2026.0, FREES, [0, 2]),
        (2026.63, FREES, [1, 2]),
        (2026.63, KEEPS, [0, 1.25]),  # buckets of parameters, which fill the room of a billion
    ],
)
def test_room_of_each_release_for_layers_of_0_8_billion_parameters(year: float, stage: int, waiting: list[float]) -> None:
    """Behind a head of 1.05 billion: room for two layers before core 0.14 (buckets are not padded), or a billion parameters."""
    layer, number = np.array([[0.8e9]]), np.array([[80.0]])
    found = [layers_queued(job(year=year), rows(stage), layer, number, head)[0, 0] for head in (1.05e9, 0.0)]
    assert found == waiting


def test_gathered_weights_of_llama_by_hand() -> None:
    layer, number = np.array([[218_112_000.0]]), np.array([[32.0]])
    ends = 2 * 128_256 * 4096 + 4096
    numbers = (32 * 218_112_000 + ends, 0, 0, 0, 218_112_000, 0, ends, 32)
    its = StageParameters(*(np.array([[float(each)]]) for each in numbers))
    weights = whole_weights_bytes(job(), rows(), its) + 2 * layer * (1 + layers_ahead(job(), layer, number))
    assert worked("gathered-ahead") == weights[0, 0]


def test_few_layers_and_large_heads_bound_what_waits() -> None:
    layer, two = np.array([[1e6]]), np.array([[2.0]])
    assert (layers_ahead(job(), layer, two)[0, 0], layers_queued(job(), rows(), layer, two, layer)[0, 0]) == (1, 1)
    assert layers_queued(job(), rows(), layer, two, np.array([[1.1e9]]))[0, 0] == 0  # the head's is given back for the first's
    assert layers_ahead(job(year=2025.5), layer, two)[0, 0] == 1  # before core 0.14


@pytest.mark.parametrize(
    ("zero_stage", "bf16", "weights", "gradients"),
    [(FREES, False, 3_145_728, 6_291_456), (FREES, True, 3_145_728, 3_145_728), (KEEPS, False, 12_582_912, 6_291_456)],
)
def test_buffers_are_as_large_as_they_were(zero_stage: int, bf16: bool, weights: int, gradients: int) -> None:
    states = model_states(job(), rows(zero_stage, bf16=bf16), stage())
    assert (states.weights[0, 0], states.gradients[0, 0], states.master[0, 0]) == (weights, gradients, 6_291_456)


def test_tables_stay_gathered_beside_all_layers_of_half_a_billion_parameters() -> None:
    one, its = job(), stage()
    assert whole_weights_bytes(one, rows(), its)[0, 0] == 2 * 2_097_152
    assert whole_weights_bytes(one, rows(KEEPS), its)[0, 0] == 0.0
    held = gathered_bytes(one, rows(), its, its)[0, 0]
    assert held == 2 * 2_097_152 + 8 * 1_048_576 + 2_097_152 + LAYER  # weights, a layer's gradients, a tensor's in 16 bits


def test_gradients_that_wait_are_beside_less_activations() -> None:
    last, freed = np.ones((1, 1)), np.array([[97_152.0]])
    wide = replace(job().model, vocab_size=4096, hidden_size=256)
    one = replace(job(), model=wide)
    of_head, waiting = waiting_gradients_bytes(one, rows(), last, stage(), freed)
    assert (of_head[0, 0], waiting[0, 0]) == (4_194_304, 4_194_304 + 7 * (2_097_152 - 97_152))  # all are below a billion
    assert waiting_gradients_bytes(one, rows(), last, stage(), np.array([[3e6]]))[1][0, 0] == 4_194_304
    assert waiting_gradients_bytes(one, rows(1), last, stage(), freed)[0][0, 0] == 0.0

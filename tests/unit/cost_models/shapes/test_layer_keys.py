"""What decides the cost of a layer, and what does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.shapes.layer_keys import data_parallel_sizes, distinct_rows, layer_keys, shard_sizes
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature, PlaceError
from tests.workloads import batch, keys, workload


def test_strategies_that_differ_outside_the_layer_share_a_key() -> None:
    columns, index = layer_keys(
        workload(),
        StrategyBatch.of(
            [
                ParallelStrategy(tp=2, pp=1, dp=8),
                ParallelStrategy(tp=2, pp=4, dp=2, vpp=2, schedule=Schedule.INTERLEAVED),
                ParallelStrategy(tp=4, pp=1, dp=4),
                ParallelStrategy(tp=2, pp=2, dp=4, features=Feature.FLASH_ATTENTION | Feature.OVERLAP_P2P),
                ParallelStrategy(tp=2, pp=2, dp=4, features=Feature.FLASH_ATTENTION),
            ]
        ),
    )
    assert len(columns.tp) == 3
    assert index[0] == index[1]
    assert index[3] == index[4]  # overlapped sends are no matter of one layer
    assert len({int(i) for i in index}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"tp": 4, "dp": 4},
        {"cp": 2, "dp": 4},
        {"ep": 2},
        {"etp": 2},
        {"micro_batch_size": 2},
        {"sequence_parallel": True},
        {"ulysses_degree": 2},
        {"dispatcher": Dispatcher.ALLTOALL},
        {"recompute_modules": RecomputeModule.MLP},
        {"features": Feature.FLASH_ATTENTION},
        {"zero_stage": 3},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_a_layer_costs_depends_on(change: dict[str, Any]) -> None:
    plain = ParallelStrategy(tp=2, dp=8)
    assert len(layer_keys(workload(), StrategyBatch.of([plain, replace(plain, **change)]))[0].tp) == 2


def test_a_switch_that_layers_do_not_price_cannot_be_asked_of_a_key() -> None:
    key = keys(features=Feature.SWAP_OPTIMIZER | Feature.MC2)
    assert key.has(Feature.MC2)[0]
    with pytest.raises(PlaceError, match="SWAP_OPTIMIZER is asked for in LAYER"):
        key.has(Feature.SWAP_OPTIMIZER)
    with pytest.raises(PlaceError):
        key.has(Feature.MC2 | Feature.SWAP_OPTIMIZER)


def test_zero3_keys_know_over_how_many_ranks_a_layer_is_gathered() -> None:
    plain, gathered = keys(tp=2, dp=8, cp=2, zero_stage=1), keys(tp=2, dp=8, cp=2, ep=4, zero_stage=3)
    assert (int(plain.weight_shards[0]), int(plain.expert_weight_shards[0])) == (1, 1)
    assert (int(gathered.weight_shards[0]), int(gathered.expert_weight_shards[0])) == (16, 8)


def test_replicas_of_dense_and_expert_parameters() -> None:
    # tp 4 x cp 2 x dp 8 = 64 ranks a stage: dense parameters on 16 of them alike, experts on 64 / (8 x 2) = 4
    dense, experts = data_parallel_sizes(batch(tp=4, cp=2, dp=8, ep=8, etp=2))
    assert (int(dense[0]), int(experts[0])) == (16, 4)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [({"zero_stage": 0}, (1, 1)), ({}, (16, 4)), ({"optimizer_shard_size": 8}, (8, 4)), ({"optimizer_shard_size": 2}, (2, 2))],
)
def test_ranks_that_share_optimizer_states(columns: dict[str, int], expected: tuple[int, int]) -> None:
    dense, experts = shard_sizes(batch(tp=4, cp=2, dp=8, ep=8, etp=2, **columns))
    assert (int(dense[0]), int(experts[0])) == expected


def test_tokens_of_a_micro_batch() -> None:
    job = workload(seq_length=4096)
    assert float(keys(tp=4, cp=2, micro_batch_size=3).tokens(job.training)[0]) == 4096 * 3 / 2
    assert float(keys(tp=4, cp=2, micro_batch_size=3).sharded_tokens(job.training)[0]) == 4096 * 3 / 2
    assert float(keys(tp=4, cp=2, micro_batch_size=3, sequence_parallel=True).sharded_tokens(job.training)[0]) == 4096 * 3 / 8


def test_switches_of_a_key() -> None:
    key = keys(features=Feature.MC2, recompute_modules=RecomputeModule.MLP | RecomputeModule.LAYERNORM)
    assert key.has(Feature.MC2)[0]
    assert not key.has(Feature.COC)[0]
    assert key.recomputes(RecomputeModule.LAYERNORM)[0]
    assert not key.recomputes(RecomputeModule.MOE)[0]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**40), st.integers(5, 5)), min_size=1, max_size=40))
def test_distinct_rows_are_those_of_numpy(rows: list[tuple[int, int, int]]) -> None:
    table = np.array(rows, dtype=np.int64)
    first, inverse = distinct_rows(list(table.T))
    np.testing.assert_array_equal(table[first][inverse], table)
    assert len(first) == len(np.unique(table, axis=0))


def test_wide_columns_do_not_overflow_the_code() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2**60, 500) for _ in range(4)]
    first, inverse = distinct_rows([np.concatenate([c, c]) for c in columns])
    assert len(first) == 500
    np.testing.assert_array_equal(inverse[:500], inverse[500:])

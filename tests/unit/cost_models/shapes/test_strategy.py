"""Strategies as objects and as columns."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import (
    COLUMNS,
    CpAlgo,
    Dispatcher,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    Schedule,
    StrategyBatch,
    concatenate,
)
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature

strategies = st.builds(
    ParallelStrategy,
    tp=st.integers(1, 64),
    pp=st.integers(1, 64),
    dp=st.integers(1, 4096),
    sequence_parallel=st.booleans(),
    cp_algo=st.sampled_from(CpAlgo),
    schedule=st.sampled_from(Schedule),
    dispatcher=st.sampled_from(Dispatcher),
    recompute=st.sampled_from(Recompute),
    recompute_method=st.sampled_from(RecomputeMethod),
    recompute_modules=st.sampled_from([RecomputeModule(0), RecomputeModule.MLP | RecomputeModule.MOE]),
    features=st.sampled_from([Feature(0), DEFAULT_FEATURES, Feature.FINE_GRAIN_INTERLEAVE]),
    recompute_layers_per_stage=st.sampled_from([None, (1, 2), (3, 0)]),
    layer_layout=st.sampled_from([None, ((4, 4),), ((5, 3),)]),
)


@given(st.lists(strategies, min_size=1, max_size=8))
def test_columns_give_the_strategies_back(rows: list[ParallelStrategy]) -> None:
    batch = StrategyBatch.of(rows)
    assert len(batch) == len(rows)
    assert [batch.row(index) for index in range(len(rows))] == rows


@given(st.lists(strategies, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_taking_rows_keeps_them_whole(rows: list[ParallelStrategy], random) -> None:  # type: ignore[no-untyped-def]
    batch = StrategyBatch.of(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    taken = batch.take(np.array(order))
    assert [taken.row(i) for i in range(len(order))] == [rows[i] for i in order]
    even = batch.take(np.arange(len(rows)) % 2 == 0)
    assert [even.row(i) for i in range(len(even))] == rows[::2]


def test_halves_join_again() -> None:
    batch = StrategyBatch.of([ParallelStrategy(tp=t, layer_layout=((t, 8 - t),)) for t in (1, 2, 4)])
    joined = concatenate([batch.take(np.array([0])), batch.take(np.array([1, 2]))])
    assert [joined.row(i) for i in range(3)] == [batch.row(i) for i in range(3)]


def test_equal_layouts_are_stored_once() -> None:
    batch = StrategyBatch.of(
        [ParallelStrategy(layer_layout=((4, 4),)), ParallelStrategy(), ParallelStrategy(layer_layout=((4, 4),))]
    )
    assert batch.layouts == (((4, 4),),)
    assert batch.layout_index.tolist() == [0, -1, 0]


def test_micro_batches_of_a_step() -> None:
    batch = StrategyBatch.of([ParallelStrategy(dp=d, micro_batch_size=b) for d, b in [(8, 1), (8, 4), (3, 1)]])
    assert batch.num_microbatches(64).tolist() == [8, 2, 21]


def test_features_by_row() -> None:
    batch = StrategyBatch.of([ParallelStrategy(), replace(ParallelStrategy(), features=Feature.MC2)])
    assert batch.has(Feature.MC2).tolist() == [False, True]
    assert batch.has(Feature.FLASH_ATTENTION).tolist() == [True, False]


def test_columns_are_the_fields_that_are_numbers() -> None:
    assert {"tp", "features", "sequence_parallel"} <= set(COLUMNS)
    assert not {"layer_layout", "recompute_layers_per_stage"} & set(COLUMNS)


def test_labels_are_the_names_in_files() -> None:
    assert (Schedule.ONE_F_ONE_B.label, Schedule.INTERLEAVED.label) == ("1f1b", "interleaved-1f1b")
    assert Dispatcher.TWO_LEVEL.label == "two_level"
    assert CpAlgo.ULYSSES.label == "ulysses"
    assert (Recompute.FULL.label, RecomputeMethod.BLOCK.label) == ("full", "block")

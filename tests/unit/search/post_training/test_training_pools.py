"""Training pools: which sizes are tried, and that no device more makes the answer slower."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cost_models.post_training.step import Algorithm, least_passes, training_cost_s
from cost_models.post_training.training_side import TrainingTimes, all_training_times, training_peaks, training_times
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.workload import Software, TrainingJob, Workload
from documents.errors import InfeasibleError
from search.post_training import layouts
from search.post_training.layouts import PoolPricing, priced_layout, strategy_of, training_layouts
from search.post_training.pools import TrainingPools, pool_sizes
from tests.networks import ascend_a2
from tests.workloads import DENSE, SPARSE, constants

LENGTHS = np.array([300, 500, 700, 900] * 6, dtype=np.int64)  # 24 answers: some pools have more replicas than that
GRPO = Algorithm()


def pools(model=DENSE, layouts_of=training_layouts, lengths=LENGTHS) -> TrainingPools:  # type: ignore[no-untyped-def]
    def cost_s(_: ParallelStrategy, times: TrainingTimes) -> float:
        return training_cost_s(GRPO, times)

    workload = Workload(model, TrainingJob(4096, 1), ascend_a2(), Software("mindspeed"))
    passes = least_passes(GRPO, recomputes=False)
    return TrainingPools(workload, lambda pool: list(layouts_of(pool)), PoolPricing(constants(), lengths, 1024), cost_s, passes)


def test_sizes_of_a_pool_are_among_those_of_a_larger_one() -> None:
    assert list(pool_sizes(5)) == [5, 4, 3, 2, 1]
    assert list(pool_sizes(131))[:4] == [128, 126, 124, 122]
    for devices in range(1, 1100):
        assert set(pool_sizes(devices)) <= set(pool_sizes(devices + 1))


def test_whole_nodes_are_among_the_sizes() -> None:
    assert all(next(pool_sizes(devices)) == devices for devices in range(8, 513, 8))
    assert all(next(pool_sizes(devices)) == devices for devices in range(16, 1025, 16))


@pytest.mark.parametrize("model", [DENSE, SPARSE])
def test_no_device_more_makes_training_slower(model) -> None:  # type: ignore[no-untyped-def]
    found = pools(model)
    costs = [found.best(devices)[1].cost_s for devices in range(1, 41)]
    assert all(later <= earlier for earlier, later in pairwise(costs))
    assert costs[-1] < costs[0]


def test_devices_that_make_training_slower_are_left_idle() -> None:
    # 24 answers on 40 replicas: 16 of them would get a copy of nothing.
    used, found = pools(layouts_of=lambda pool: [strategy_of(pool.model, pool.cluster.num_devices, recompute=False)]).best(40)
    assert used.cluster.num_devices < 40
    assert found.strategy.dp == used.cluster.num_devices


def test_the_bound_that_ends_the_trial_is_below_every_price() -> None:
    found = pools()
    for devices in (1, 2, 8, 16):
        for layout in training_layouts(workload := found.best(devices)[0]):
            times = training_times(workload, layout, found.pricing.constants, LENGTHS, pack_length=1024)
            assert training_cost_s(GRPO, times) > found._least_s(workload.cluster.num_devices)


def test_layouts_priced_together_have_the_prices_that_they_have_alone() -> None:
    found = pools()
    for devices in (12, 16):
        workload, best = found.best(devices)
        alone = training_times(workload, best.strategy, found.pricing.constants, LENGTHS, pack_length=1024)
        assert best.times == alone


@pytest.mark.parametrize("scale", [1, 12, 40])
@pytest.mark.parametrize("model", [DENSE, SPARSE])
def test_memory_alone_leaves_out_no_layout_that_would_be_chosen(model, scale: int) -> None:  # type: ignore[no-untyped-def]
    # Every layout of every size with all of its times. At these widths all fit, some, or none.
    wide = replace(model, num_layers=48, hidden_size=model.hidden_size * scale, ffn_hidden_size=model.ffn_hidden_size * scale)
    found, best = pools(wide), None
    for size in pool_sizes(12):
        pool = replace(found.workload, cluster=replace(found.workload.cluster, num_devices=size))
        layouts = list(training_layouts(pool))
        every = all_training_times(pool, layouts, found.pricing.constants, LENGTHS, pack_length=1024) if layouts else []
        for layout, times in zip(layouts, every, strict=True):
            cost = training_cost_s(GRPO, times)
            key = (not times.fits, cost if times.fits else times.peak_memory_bytes)
            if best is None or key < best[0]:
                best = key, size, layout
    used, chosen = found.best(12)
    assert best == (chosen.key, used.cluster.num_devices, chosen.strategy)


def test_memory_without_times_is_the_memory_with_them() -> None:
    for devices in (8, 16):
        pool = replace(pools(SPARSE).workload, cluster=replace(ascend_a2(), num_devices=devices))
        layouts = list(training_layouts(pool))
        found = training_peaks(pool, layouts, constants(), LENGTHS, pack_length=1024)
        times = [training_times(pool, layout, constants(), LENGTHS, pack_length=1024) for layout in layouts]
        assert found.peak_bytes.tolist() == pytest.approx([one.peak_memory_bytes for one in times], rel=1e-12)
        assert found.fits.tolist() == [one.fits for one in times]


def test_pools_that_share_prices_choose_as_pools_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(pool: Workload) -> list[ParallelStrategy]:
        return [layout for layout in training_layouts(pool) if layout.recompute is Recompute.FULL]

    asked = list[tuple[int, ParallelStrategy]]()

    def counted(workload, strategies, *others, **named):  # type: ignore[no-untyped-def]
        asked.extend((workload.cluster.num_devices, strategy) for strategy in strategies)
        return training_peaks(workload, strategies, *others, **named)

    alone = [pools(SPARSE, layouts_of).best(devices) for layouts_of in (training_layouts, again) for devices in (16, 24)]
    monkeypatch.setattr(layouts, "training_peaks", counted)
    first, second = pools(SPARSE), pools(SPARSE, again)
    second.pricing = first.pricing
    assert [pool.best(devices) for pool in (first, second) for devices in (16, 24)] == alone
    assert asked
    assert len(asked) == len(set(asked))  # each layout of each size once


def test_a_layout_that_does_not_hold_the_model_leaves_the_others_their_price() -> None:
    workload = pools(replace(DENSE, num_layers=4)).best(8)[0]
    good = strategy_of(DENSE, 8, tp=2)
    too_deep = strategy_of(DENSE, 8, pp=8)
    assert good is not None
    assert too_deep is not None
    kept = priced_layout(workload, [too_deep, good], PoolPricing(constants(), LENGTHS, 1024))
    assert kept is not None
    assert kept.strategy == good


def test_a_pool_that_no_layout_fills_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="No training layout fills 8 devices"):
        pools(layouts_of=lambda pool: []).best(8)

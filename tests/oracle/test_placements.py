"""The list of placements is complete, and what is read off it is what its names say."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.step.composition import estimate
from tests.oracle.placements import layouts, placements
from tests.workloads import DENSE, constants, workload

JOB = replace(
    workload(replace(DENSE, num_layers=4), global_batch_size=16, target="any"), cluster=replace(workload().cluster, num_devices=4)
)
PLAN = ParallelStrategy(pp=2, vpp=2, dp=2, micro_batch_size=1, schedule=Schedule.INTERLEAVED)


def test_every_way_to_cut_the_model_is_listed_once() -> None:
    assert list(layouts(2, 2, 1)) == [((0, 2),), ((1, 1),), ((2, 0),)]
    assert list(layouts(3, 1, 2, least=1)) == [((1,), (2,)), ((2,), (1,))]
    found = list(layouts(4, 2, 2))
    assert len(set(found)) == len(found) == comb(4 + 3, 3)
    assert {sum(map(sum, layout)) for layout in found} == {4}


def test_bounds_leave_out_placements_and_nothing_else() -> None:
    every = list(layouts(7, 3, 1))
    assert list(layouts(7, 3, 1, least=1, most=3)) == [each for each in every if min(each[0]) >= 1 and max(each[0]) <= 3]
    assert list(layouts(2, 3, 1, least=1)) == []


def test_the_least_are_those_that_fit_and_no_others() -> None:
    free = placements(JOB, constants(), [PLAN])
    assert len(free.strategies) == comb(4 + 3, 3)
    assert free.fits.all()
    assert free.least_closed_form == free.strategies[int(np.argmin(free.closed_form_s))]
    peaks = estimate(JOB, StrategyBatch.of(free.strategies), constants()).peak_memory_bytes
    limit = float(np.median(peaks))
    tight = placements(JOB, constants(), [PLAN], fitting_bytes=limit)
    assert (tight.fits == (peaks <= limit)).all()
    for column, best in (
        ("closed_form_s", tight.least_closed_form),
        ("simulated_s", tight.least_simulated),
        ("bottleneck_s", tight.least_bottleneck),
    ):
        row = tight.strategies.index(best)
        values = getattr(tight, column)
        assert tight.fits[row]
        assert values[row] == values[tight.fits].min()
    with pytest.raises(ValueError, match="no placement fits"):
        _ = placements(JOB, constants(), [PLAN], fitting_bytes=1.0).least_simulated


def test_the_bottleneck_is_the_rank_with_most_work() -> None:
    # One chunk a rank, and a head of 128 rows that is nothing beside a layer.
    small = replace(JOB, model=replace(JOB.model, vocab_size=128))
    found = placements(small, constants(), [replace(PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B)])
    by_layout = {strategy.layer_layout: float(s) for strategy, s in zip(found.strategies, found.bottleneck_s, strict=True)}
    assert by_layout[(4, 0),] > by_layout[(3, 1),] > by_layout[(2, 2),]
    assert by_layout[(0, 4),] > by_layout[(1, 3),] > by_layout[(2, 2),]
    assert found.rank_s.shape == (5, 2)


def test_placements_that_the_target_refuses_are_left_out() -> None:
    refusing = replace(JOB, software=replace(JOB.software, target="megatron-lm@0.12"))
    taken = placements(refusing, constants(), [PLAN]).strategies
    assert 0 < len(taken) < comb(4 + 3, 3)
    with pytest.raises(ValueError, match="takes no placement"):
        placements(refusing, constants(), [replace(PLAN, dp=3)])

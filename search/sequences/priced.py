"""The cost of an order of sequences for one strategy, from estimates at several fractions of attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from search.experts.packing import Floats, Ints
from search.sequences.order import Spread, as_they_come, rearranged, spread

Estimator = Callable[[Workload, StrategyBatch, Constants], Estimate]
NUM_PRICED = 5  # fractions between the least and the most; the step is nearly linear between them


@dataclass(frozen=True)
class SequencePlan:
    """Step times in the given order, rearranged, and with even attention. Seconds, ``[step]``."""

    fractions: Floats
    order: Ints
    before: Spread
    after: Spread
    before_s: Floats
    after_s: Floats
    balanced_s: Floats


def sequence_plan(
    workload: Workload,
    strategy: ParallelStrategy,
    constants: Constants,
    estimate: Estimator,
    fractions: Floats,
) -> SequencePlan:
    """The gain from rearranging the sequences of each step; ``fractions`` ``[step, sequence]``. Never below zero.

    Replicas that share an expert-parallel group wait for each other in every micro batch, others once a step.
    """
    batch = StrategyBatch.of([strategy])
    num_microbatches = int(batch.num_microbatches(workload.training.global_batch_size)[0])
    shape = (strategy.dp, num_microbatches, strategy.micro_batch_size)
    bubble = (strategy.pp - 1) / strategy.vpp
    coupled = min(max(strategy.ep * strategy.etp // (strategy.tp * strategy.cp), 1), strategy.dp)
    given, best = as_they_come(len(fractions), *shape), rearranged(fractions, *shape, coupled)
    before, after = spread(fractions, given, bubble, coupled), spread(fractions, best, bubble, coupled)
    worse = after.slowest > before.slowest
    best[worse] = given[worse]
    after = spread(fractions, best, bubble, coupled)
    even = fractions.mean(axis=1)
    step_s = _priced(workload, batch, constants, estimate, np.concatenate([before.slowest, after.slowest, even]))
    return SequencePlan(fractions, best, before, after, step_s(before.slowest), step_s(after.slowest), step_s(even))


def _priced(
    workload: Workload, batch: StrategyBatch, constants: Constants, estimate: Estimator, met: Floats
) -> Callable[[Floats], Floats]:
    """The step time for a fraction: estimated at some, with straight lines between them."""
    priced = np.unique(np.linspace(met.min(), met.max(), NUM_PRICED))
    times_s = [
        float(
            estimate(
                replace(workload, training=replace(workload.training, mean_squared_length_fraction=fraction)), batch, constants
            ).step_time_s[0]
        )
        for fraction in priced.tolist()
    ]

    def step_s(fraction: Floats) -> Floats:
        return np.interp(fraction, priced, times_s)

    return step_s

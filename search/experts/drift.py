"""A whole training whose expert loads drift: experts in order, planned once, and planned again where that pays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from search.experts.generated import EARLY_KEPT, EARLY_STEPS, STABLE_KEPT, Router
from search.experts.packing import Floats
from search.experts.placement import in_order
from search.experts.plan import Prices, Terms, expected, plan, replan

SAMPLES = 5  # steps of each interval that are logged
LOGGED_INTERVALS = 4
MAX_INTERVALS = 400


@dataclass(frozen=True)
class DriftedTraining:
    """The load of the fullest rank over the mean, mean of layers, by interval ``[interval]``, under three ways to place experts.

    ``interval_steps`` is the length of each, the time between two looks at the loads. ``*_s`` are seconds of a step beyond one
    with equal ranks, means of the training: copies and moves are included.
    """

    interval_steps: int
    load_in_order: Floats
    load_planned_once: Floats
    load_replanned: Floats
    is_planned: list[bool]
    in_order_s: float
    planned_once_s: float
    replanned_s: float
    moves_s: float  # of all plans, over the whole training


def drifted_training(
    router: Router, copies: int, num_ranks: int, num_steps: int, prices: Prices, terms: Terms
) -> DriftedTraining:
    """Play ``num_steps`` steps of a training from its first on.

    Loads drift as in ``generated``: fast in the first ``EARLY_STEPS``, then slowly. At the end of each interval the
    log of the last ones is planned from if the avoidable load is above the trigger of the last plan. An interval is
    ``terms.valid_steps`` long, or longer, so that a training has at most ``MAX_INTERVALS``.
    """
    num_layers, num_experts = router.base.shape
    interval = max(terms.valid_steps, -(-num_steps // MAX_INTERVALS))
    stride = interval / SAMPLES
    # The log has every stride-th step: what a step costs counts for the steps between, too.
    priced = replace(
        prices,
        load_s=prices.load_s * stride,
        share_inside_s=prices.share_inside_s * stride,
        share_between_s=prices.share_between_s * stride,
    )
    sampled = replace(terms, valid_steps=SAMPLES, held_back=None)
    start = in_order(num_layers, num_experts, num_ranks)
    once = again = start
    share_once = share_again = 0.0
    above, log = 0.0, np.empty((0, num_layers, num_experts))
    rows: list[list[float]] = []
    planned: list[bool] = []
    spent = np.zeros(3)
    moves_s = 0.0
    for number in range(-(-num_steps // interval)):
        begin, steps = number * interval, min(interval, num_steps - number * interval)
        log = np.concatenate([log, _interval(router, copies, begin, stride)])[-SAMPLES * LOGGED_INTERVALS :]
        loads = [placed.load_factors(log[-SAMPLES:]).mean(axis=0) for placed in (start, once, again)]
        shares_s = np.array([0.0, share_once, share_again])
        spent += steps * (prices.load_s * np.array([float((load - 1.0).sum()) for load in loads]) + shares_s)
        measured = float(again.avoidable_loads(log[-SAMPLES:]).mean())
        is_planned = False
        if measured > above:
            found = plan(expected(log, sampled), again, priced, sampled)
            trigger = replan(found, priced, sampled)
            if trigger is not None:
                is_planned, above, again = True, trigger.above_excess, found.change.placement
                share_again = prices.of_stages(found.change.share_s) / stride
                paid_s = prices.of_stages(found.change.move_s)
                moves_s += paid_s
                spent[2] += paid_s
                if once is start:
                    once, share_once = again, share_again
                    spent[1] += paid_s
        rows.append([float(load.mean()) for load in loads])
        planned.append(is_planned)
    in_order_s, once_s, again_s = (spent / num_steps).tolist()
    first, second, third = np.array(rows).T
    return DriftedTraining(interval, first, second, third, planned, in_order_s, once_s, again_s, moves_s)


def _interval(router: Router, copies: int, begin: int, stride: float) -> Floats:
    """The logged steps of an interval, ``[sample, layer, expert]``."""
    found = []
    for number in range(SAMPLES):
        found.append(router.counts(copies))
        router.drift((EARLY_KEPT if begin + number * stride < EARLY_STEPS else STABLE_KEPT) ** stride)
    return np.stack(found)

"""Evaluates drafts: completes them, counts memory, rules some out by a lower bound, and simulates the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cost_models.memory.fit import fit_rule
from cost_models.shapes.canonical import canonical
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate_priced
from cost_models.step.priced_groups import priced_by
from cost_models.step.priced_keys import LayerPrices
from frameworks.legality import rules_for
from search.placement.placer import Placer
from search.plans.estimator import Estimator
from search.refinement.draft_choices import BLOCK, BY_RANK, BY_TENSOR, Draft
from search.refinement.least_recompute import least_block, least_by_rank
from search.tensor_choice.tensor_plan import keeping_all, with_tensors
from search.trials.trial import FITS, ILLEGAL, TOO_LARGE, UNPRICED, Evaluation

Beaten = Sequence[tuple[float, float]]  # seconds and bytes of simulated plans


class Evaluator:
    """Evaluates drafts of one job at the fidelity of the plans that they are compared with."""

    def __init__(self, prices: LayerPrices, simulate: Estimator) -> None:
        self._prices, self._simulate = prices, simulate
        self._placer = Placer(prices.workload)
        self._rules = rules_for(prices.workload.software.target)
        self._fit = fit_rule(prices.workload, prices.constants)

    def completed(self, draft: Draft, beaten: Beaten) -> ParallelStrategy:
        """The strategy of a draft.

        It is left unchanged where it is illegal, where no recompute makes it fit, and where its lower bound without recompute is
        not below ``beaten``.
        """
        workload, plan = self._prices.workload, draft.strategy
        batch = StrategyBatch.of([plan])
        if any(rule.violates(workload, batch)[0] for rule in self._rules if not rule.reads_placement):
            return plan
        if draft.placed:
            (plan,) = self._placer.best(self._prices.constants, [plan])
        if draft.recompute in (BY_RANK, BLOCK, BY_TENSOR) and self._could_be(keeping_all(plan), beaten):
            plan = self._recomputed(plan, draft.recompute) or plan
        return canonical(workload, plan)

    def _could_be(self, fastest: ParallelStrategy, beaten: Beaten) -> bool:
        bound = estimate_priced(priced_by(self._prices, StrategyBatch.of([fastest])), memory=False).step_time_lower_bound_s
        return bool(bound[0] < _to_beat_s(beaten, np.zeros(1))[0])

    def _recomputed(self, plan: ParallelStrategy, recompute: str) -> ParallelStrategy | None:
        if recompute == BY_RANK:
            return least_by_rank(self._prices, plan)
        if recompute == BLOCK:
            return least_block(self._prices, plan)
        answer = with_tensors(self._prices.workload, plan, self._prices.constants)
        return None if answer is None else answer.strategy

    def evaluated(self, strategies: Sequence[ParallelStrategy], beaten: Beaten) -> dict[ParallelStrategy, Evaluation]:
        """The evaluations of distinct strategies.

        A strategy that fits but cannot be faster than all of ``beaten`` that need no more memory is not simulated. It has no step
        time, and its value is that of the closed form.
        """
        if not strategies:
            return {}
        workload, batch = self._prices.workload, StrategyBatch.of(strategies)
        broken = np.array([rule.violates(workload, batch) for rule in self._rules])
        num_broken = broken.sum(axis=0)
        found = {}
        for row in np.flatnonzero(num_broken).tolist():
            rule = self._rules[int(broken[:, row].argmax())].name
            found[strategies[row]] = Evaluation(ILLEGAL, rule, None, None, UNPRICED, {"legality": float(num_broken[row])})
        legal = np.flatnonzero(num_broken == 0)
        if len(legal):
            found |= self._priced([strategies[row] for row in legal.tolist()], batch.take(legal), beaten)
        return found

    def _priced(
        self, strategies: Sequence[ParallelStrategy], batch: StrategyBatch, beaten: Beaten
    ) -> dict[ParallelStrategy, Evaluation]:
        priced = estimate_priced(priced_by(self._prices, batch))
        peaks = priced.peak_memory_bytes
        missing = (peaks - self._fit.fit_limit_bytes) / self._fit.memory_limit_bytes
        found = [
            Evaluation(FITS if short <= 0.0 else TOO_LARGE, None, None, peak, time_s, {"legality": 0.0, "memory": short})
            for short, peak, time_s in zip(missing.tolist(), peaks.tolist(), priced.step_time_s.tolist(), strict=True)
        ]
        hopeful = np.flatnonzero((missing <= 0.0) & (priced.step_time_lower_bound_s < _to_beat_s(beaten, peaks)))
        if len(hopeful):
            args = self._prices.workload, batch.take(hopeful), self._prices.constants
            times = self._simulate(*args, memory=False, prices=self._prices).step_time_s
            for row, time_s in zip(hopeful.tolist(), times.tolist(), strict=True):
                found[row] = replace(found[row], step_time_s=time_s, value=time_s)
        return dict(zip(strategies, found, strict=True))


def _to_beat_s(beaten: Beaten, peak_bytes: Floats) -> Floats:
    """Least time of the plans that need no more memory than each peak, ``[n]``."""
    times, peaks = np.array(beaten, dtype=np.float64).reshape(-1, 2).T
    least: Floats = np.where(peaks[None] <= peak_bytes[:, None], times[None], np.inf).min(axis=1, initial=np.inf)
    return least

"""Makes the record of a refinement from its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.priced_keys import LayerPrices
from frameworks.launch import launch_block
from frameworks.legality import launchable_on
from search.explain.explanation import changes
from search.plans.estimator import Estimator
from search.plans.plan import estimates_to_mappings, plan_id, strategy_to_mapping
from search.ranking.leaderboard import RankedStrategy
from search.refinement.refinement_trials import Stage
from search.results.refinement import RefinedPlan, Refinement, RefinementCounts
from search.trials.trial import FITS, Trial

LISTED = 3  # refined plans
ON_FRONT = 20


def reported(
    prices: LayerPrices, simulate: Estimator, stage: Stage, proved: RankedStrategy, stopped_by: str | None
) -> Refinement:
    """The record of a refinement so far; ``stopped_by`` is the reason where it did not end by itself."""
    settings, distinct = stage.settings, [trial for trial in stage.trials if trial.duplicate_of is None]
    legal = [trial for trial in distinct if trial.evaluation.peak_memory_bytes is not None]
    fitting = [trial for trial in legal if trial.evaluation.outcome == FITS]
    simulated = stage.best_first()
    faster = [trial for trial in simulated if trial.evaluation.value < proved.step_time_s][:LISTED]
    front = _front(simulated)[:ON_FRONT] if settings.front else []
    plans = _plans(prices, simulate, [*faster, *front], proved)
    return Refinement(
        sampler=settings.sampler_name,
        seed=settings.seed,
        max_trials=settings.max_trials,
        stopped_by=stage.stopped_by or stopped_by,
        counts=RefinementCounts(
            trials=len(stage.trials),
            distinct=len(distinct),
            legal=len(legal),
            fits_memory=len(fitting),
            pruned_by_bound=len(fitting) - len(simulated),
            simulated=len(simulated),
        ),
        gain_fraction=plans[0].gain_fraction if faster else 0.0,
        plans=plans[: len(faster)],
        front=plans[len(faster) :],
    )


def _front(by_time: Sequence[Trial]) -> list[Trial]:
    """Trials that need less memory than every faster one; ``by_time`` has the fastest first."""
    found: list[Trial] = []
    least = float("inf")
    for trial in by_time:
        peak = trial.evaluation.peak_memory_bytes
        assert peak is not None  # every trial here was simulated
        if peak < least:
            found.append(trial)
            least = peak
    return found


def _plans(prices: LayerPrices, simulate: Estimator, trials: Sequence[Trial], proved: RankedStrategy) -> tuple[RefinedPlan, ...]:
    if not trials:
        return ()
    workload, strategies = prices.workload, [trial.strategy for trial in trials]
    estimate = simulate(workload, StrategyBatch.of(strategies), prices.constants, breakdown=True)
    numbers = estimates_to_mappings(workload, estimate)

    def plan(strategy: ParallelStrategy, of_strategy: Mapping[str, Any]) -> RefinedPlan:
        return RefinedPlan(
            plan_id=plan_id(workload, strategy),
            of_plan_id=plan_id(workload, proved.strategy),
            change=changes(proved.strategy, strategy),
            strategy=strategy_to_mapping(workload, strategy),
            estimate=of_strategy,
            gain_fraction=1.0 - of_strategy["step_time_s"] / proved.step_time_s,
            launchable_on=launchable_on(workload, strategy),
            launch=launch_block(workload, strategy),
        )

    return tuple(plan(*pair) for pair in zip(strategies, numbers, strict=True))

"""A search by a sampler: Optuna proposes strategies batch by batch, and the cost model prices them.

An exhaustive search is faster and proves its result. Samplers serve for comparison, and for evaluators that are too slow to price
everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from documents.sentences import Sentence
from frameworks.accepted_switches import taken
from frameworks.legality import rules_for
from search.errors import SearchError
from search.objectives.objective import Criterion
from search.plans.baseline import default_baseline
from search.plans.estimator import Estimator
from search.plans.plan import recommended_of
from search.ranking.leaderboard import Leaderboard, Scored
from search.ranking.proof import Proof
from search.results.result_builder import ResultBuilder
from search.results.search_result import Counts, SearchResult, Timing, listed_rejections
from search.session.progress import SAMPLE, SEARCHED, Clock, Progress, ProgressCallback
from search.session.request import SearchRequest
from search.session.runner import check_time_limit, explained_result, run_to_end
from search.space.enumeration import Rejections
from search.trials.named_choices import StrategyChoices
from search.trials.optuna_sampler import SamplerStudy, TrialNotes
from search.trials.trial import BASELINE, FITS, ILLEGAL, OUTCOMES, TOO_LARGE, UNPRICED, Evaluation, Trial

BATCH_TRIALS = 32


class SamplerSearch:
    """A sampled search, one batch at a time. With the trials and the checkpoint of another one it continues that one.

    ``request.options`` name the sampler, its seed and the number of trials. The first trial is the baseline where the space holds
    it. ``estimator`` prices a batch.
    """

    def __init__(
        self,
        request: SearchRequest,
        *,
        estimator: Estimator = estimate,
        trials: Sequence[Trial] = (),
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        options, workload = request.options, request.workload
        assert options.sampler is not None  # a request for this mode has a sampler
        assert options.max_trials is not None
        self.request = request
        self.workload = workload
        self.constants = request.constants
        self.max_trials = options.max_trials
        self.trials: list[Trial] = list(trials)
        self._baseline, self._sampler = request.baseline, options.sampler
        self._builder = ResultBuilder(
            workload,
            request.space,
            request.constants,
            estimator,
            request.objective,
            request.paired_error,
            published=request.published,
        )
        self._estimate = estimator
        self._now: Clock = request.clock or (lambda: 0.0)
        self._ask_s, self._price_s, self._elapsed_s = _times(checkpoint)
        self._started_s = self._now() - self._elapsed_s
        self._rules = rules_for(workload.software.target)
        self._proposals, self._wanted = StrategyChoices(workload, request.space), request.space.wanted
        self._seen: dict[ParallelStrategy, Trial] = {}
        self._distinct = {outcome: 0 for outcome in OUTCOMES}
        self._best: Trial | None = None
        for trial in self.trials:
            self._consider(trial)
        self._study = SamplerStudy(options.sampler, options.seed, self._proposals.strategy)
        self._study.restore(self.trials, lambda trial: (trial.evaluation.value,))

    def advance(self) -> bool:
        """Propose, price and report one more batch; ``False`` once there are ``max_trials`` trials."""
        first = len(self.trials)
        if first >= self.max_trials:
            return False
        begun_s = self._now()
        if first == 0:
            self._enqueue_baseline()
        asked = self._study.ask(first, min(BATCH_TRIALS, self.max_trials - first))
        asked_s = self._now()
        evaluations = self._evaluated([one.drawn for one in asked])
        priced_s = self._now()
        for one in asked:
            evaluation = evaluations[one.drawn]
            self._record(one.drawn, evaluation, self._study.tell(one, (evaluation.value,), evaluation.constraints))
        self._price_s += priced_s - asked_s
        self._ask_s += (self._now() - priced_s) + (asked_s - begun_s)
        self._elapsed_s = self._now() - self._started_s
        return True

    def _enqueue_baseline(self) -> None:
        strategy = self._baseline or default_baseline(self.workload, self.constants)
        parameters = None
        if strategy is not None:  # unchanged, or with the switches that the space has on everywhere
            forms = (strategy, taken(self.workload, canonical(self.workload, strategy), self._wanted))
            parameters = next(filter(None, map(self._proposals.parameters, forms)), None)
        if parameters is not None:
            self._study.enqueue(parameters, BASELINE)

    def _evaluated(self, strategies: Sequence[ParallelStrategy]) -> dict[ParallelStrategy, Evaluation]:
        """The evaluation of every strategy. Only strategies without an earlier trial are priced."""
        found = {strategy: self._seen[strategy].evaluation for strategy in strategies if strategy in self._seen}
        new = [strategy for strategy in dict.fromkeys(strategies) if strategy not in found]
        if not new:
            return found
        batch = StrategyBatch.of(new)
        broken = np.array([rule.violates(self.workload, batch) for rule in self._rules])
        num_broken = broken.sum(axis=0)
        legal = np.flatnonzero(num_broken == 0)
        for row in np.flatnonzero(num_broken).tolist():
            rule = self._rules[int(broken[:, row].argmax())].name
            found[new[row]] = Evaluation(ILLEGAL, rule, None, None, UNPRICED, {"legality": float(num_broken[row])})
        if len(legal):
            priced = self._estimate(self.workload, batch.take(legal), self.constants)
            for place, row in enumerate(legal.tolist()):
                step_time_s, peak = float(priced.step_time_s[place]), float(priced.peak_memory_bytes[place])
                missing = (peak - priced.fit_rule.fit_limit_bytes) / priced.memory_limit_bytes
                found[new[row]] = Evaluation(
                    FITS if missing <= 0 else TOO_LARGE,
                    None,
                    step_time_s,
                    peak,
                    {Criterion.STEP_TIME: step_time_s, Criterion.PEAK_MEMORY: peak}[self.request.criterion],
                    {"legality": 0.0, "memory": missing},
                )
        return found

    def _record(self, strategy: ParallelStrategy, evaluation: Evaluation, told: TrialNotes) -> None:
        first = self._seen.get(strategy)
        fitting = [one.value for one in (evaluation, self._best and self._best.evaluation) if one and one.outcome == FITS]
        trial = Trial(
            number=len(self.trials),
            source=told.source,
            strategy=strategy,
            evaluation=evaluation,
            best_value=min(fitting, default=None),
            duplicate_of=None if first is None else first.number,
            parameters=told.parameters,
            attributes=told.attributes,
        )
        self.trials.append(trial)
        self._consider(trial)

    def _consider(self, trial: Trial) -> None:
        if trial.strategy not in self._seen:
            self._seen[trial.strategy] = trial
            self._distinct[trial.evaluation.outcome] += 1
        if trial.evaluation.outcome == FITS and (self._best is None or trial.evaluation.value < self._best.evaluation.value):
            self._best = trial

    @property
    def progress(self) -> Progress:
        """Counts are of distinct strategies, ``sampled`` counts trials."""
        counts = self._counts()
        return Progress(
            len(self.trials) / self.max_trials,
            counts.enumerated,
            counts.legal,
            counts.fits_memory,
            self._best.evaluation.step_time_s if self._best is not None else None,
            self._elapsed_s,
            sampled=len(self.trials),
            phase=SAMPLE,
        )

    def _counts(self) -> Counts:
        legal = self._distinct[FITS] + self._distinct[TOO_LARGE]
        enumerated = legal + self._distinct[ILLEGAL]
        return Counts(enumerated, legal, self._distinct[FITS], estimated=legal, sampled=len(self.trials))

    def checkpoint(self) -> dict[str, Any]:
        """The time spent so far; all else is in the trials."""
        return {"ask_s": self._ask_s, "price_s": self._price_s, "elapsed_s": self._elapsed_s}

    def result(self, stopped_by: str | None = None) -> SearchResult:
        """The explained plans, compared with the baseline. Nothing is proved: most of the lattice is unseen."""
        begun_s = self._now()
        distinct = [trial for trial in self.trials if trial.duplicate_of is None]
        leaderboard = Leaderboard(self.request.criterion, self.request.top)
        fitting = [trial for trial in distinct if trial.evaluation.outcome == FITS]
        if fitting:
            leaderboard.add(_scored(fitting))
        rejections = Rejections()
        rules = {rule.name: rule for rule in self._rules}
        for trial in distinct:
            if trial.evaluation.rule is not None:
                rejections.charge(rules[trial.evaluation.rule], 1, trial.strategy)
        plans = self._builder.plans(leaderboard.plans(), self.request.listed)
        comparison = self._builder.compared_with(self._baseline, plans)
        best = self._builder.best_of(plans)
        chosen = recommended_of(plans)
        launchable = () if chosen is None else self._builder.nearest_launchable(chosen)
        explain_s = self._now() - begun_s
        nearest = (
            None
            if plans
            else Sentence("None of the {} strategies that were tried fits; the exhaustive search tries all.", len(distinct))
        )
        return SearchResult(
            counts=self._counts(),
            rejections=listed_rejections(self.workload, rejections),
            proof=Proof(
                exhaustive=False,
                proved_best=False,
                scope=Sentence("{} strategies of the lattice sampled by {}, closed form", len(distinct), self._sampler),
                objective=self.request.objective.name,
                optimality_gap_fraction=None,
                stopped_by=stopped_by,
                plan_id=None if best is None else best.plan_id,
            ),
            timing=Timing(
                enumerate_s=self._ask_s,
                legality_s=0.0,
                price_s=self._price_s,
                rank_s=0.0,
                explain_s=explain_s,
                total_s=self._elapsed_s + explain_s,
            ),
            plans=plans,
            baseline=comparison,
            nearest=nearest,
            nearest_launchable=launchable,
            paired_error=self._builder.paired_error,
            space=self._builder.space_report(chosen),
        )


def sample(
    request: SearchRequest, *, time_limit_s: float | None = None, on_progress: ProgressCallback | None = None
) -> SearchResult:
    """The best plans among those that a sampler tries. Limits and progress as in ``search`` of the exhaustive search."""
    check_time_limit(time_limit_s, request.clock)
    sampled = SamplerSearch(request)
    return explained_result(sampled, run_to_end(sampled, time_limit_s, on_progress, SEARCHED), on_progress, request.clock)


def _times(checkpoint: Mapping[str, Any] | None) -> tuple[float, float, float]:
    if checkpoint is None:
        return 0.0, 0.0, 0.0
    try:
        return float(checkpoint["ask_s"]), float(checkpoint["price_s"]), float(checkpoint["elapsed_s"])
    except (KeyError, TypeError, ValueError):
        raise SearchError(Sentence("checkpoint: not one that a sampler of this version wrote.")) from None


def _scored(trials: Sequence[Trial]) -> Scored:
    evaluations = [trial.evaluation for trial in trials]
    return Scored(
        StrategyBatch.of([trial.strategy for trial in trials]),
        np.array([evaluation.step_time_s for evaluation in evaluations], dtype=np.float64),
        np.array([evaluation.peak_memory_bytes for evaluation in evaluations], dtype=np.float64),
        np.array([trial.number for trial in trials], dtype=np.int64),
    )

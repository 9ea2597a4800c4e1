"""The trials of a refinement: proposed by Optuna around the elites, evaluated and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.step.priced_keys import LayerPrices
from search.plans.estimator import Estimator
from search.ranking.leaderboard import RankedStrategy
from search.refinement.draft_choices import Draft, DraftChoices, with_random_answers, with_random_changes
from search.refinement.draft_evaluation import Beaten, Evaluator
from search.trials.named_choices import Value
from search.trials.optuna_sampler import SamplerStudy, TrialNotes
from search.trials.trial import FITS, SAMPLED, SEED, Evaluation, Trial, evaluation_of

BATCH_TRIALS = 16
PATIENCE = 8  # batches in a row without a better plan, after the first changes of the elites
CHANGED, BY_CHANCE = 4, 4  # trials of a batch in addition to the sampler's: changes of the best one, and random ones
TPE = "tpe"
MAX_TRIALS, STAGNATION = "max_trials", "stagnation"


@dataclass(frozen=True)
class RefinementSettings:
    """The number of trials and their purpose: with ``front``, NSGA-II looks for plans that are fast or need little memory."""

    max_trials: int
    seed: int = 0
    front: bool = False
    sampler: str = TPE

    @property
    def sampler_name(self) -> str:
        """One of ``SAMPLERS``."""
        return "nsga2" if self.front else self.sampler


class Stage:
    """A refinement, one batch of trials at a time; ``stored`` trials, as JSON, continue an earlier one."""

    def __init__(
        self,
        prices: LayerPrices,
        simulate: Estimator,
        choices: DraftChoices,
        plans: Sequence[RankedStrategy],
        settings: RefinementSettings,
        stored: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.settings = settings
        self._choices, self._evaluator = choices, Evaluator(prices, simulate)
        self._first: Beaten = [(plan.step_time_s, plan.peak_memory_bytes) for plan in plans]
        self.trials: list[Trial] = []
        self._drafts: dict[Draft, ParallelStrategy] = {}
        self._seen: dict[ParallelStrategy, Trial] = {}
        num_objectives = 2 if settings.front else 1
        self._study: SamplerStudy[Draft] = SamplerStudy(settings.sampler_name, settings.seed, choices.draft, num_objectives)
        for first in range(0, len(stored), BATCH_TRIALS):
            beaten = self._beaten
            for mapping in stored[first : first + BATCH_TRIALS]:
                self._remember(self._restored(mapping, beaten))
        self._study.restore(self.trials, lambda trial: self._values(trial.evaluation))
        seeds = list(islice(choices.seeds(), max(len(choices.elites), settings.max_trials // 2)))
        self._num_seeds = len(seeds)
        for parameters in seeds[len(self.trials) :]:
            self._study.enqueue(parameters, SEED)

    def _restored(self, mapping: Mapping[str, Any], beaten: Beaten) -> Trial:
        parameters = mapping["sampler_state"]["parameters"]
        strategy = self._completed(self._choices.draft(lambda name, offered: parameters[name]), beaten)
        return Trial(
            **{name: mapping[name] for name in ("number", "source", "best_value", "duplicate_of")},
            strategy=strategy,
            evaluation=evaluation_of(mapping),
            parameters=parameters,
            attributes=mapping["sampler_state"]["attributes"],
        )

    @property
    def stopped_by(self) -> str | None:
        """The reason why it has ended, if it has."""
        if len(self.trials) >= self.settings.max_trials:
            return MAX_TRIALS
        last = [trial for trial in self.trials if trial.source != SEED][-PATIENCE * BATCH_TRIALS :]
        if len(last) == PATIENCE * BATCH_TRIALS and not any(map(self._is_new, last)):
            return STAGNATION
        return None

    def _is_new(self, trial: Trial) -> bool:
        """Whether the trial was better than all before. For a front: whether it was simulated, as it may belong to the front."""
        if trial.duplicate_of is not None or trial.evaluation.step_time_s is None:
            return False
        return self.settings.front or trial.evaluation.step_time_s == trial.best_value

    def advance(self) -> bool:
        """Propose, price and report one more batch; ``False`` once the refinement has ended."""
        if self.stopped_by is not None:
            return False
        first, beaten = len(self.trials), self._beaten
        if first >= self._num_seeds and self.settings.sampler_name == TPE:
            for parameters in self._beside_the_sampler(first):
                self._study.enqueue(parameters, SAMPLED)
        asked = self._study.ask(first, min(BATCH_TRIALS, self.settings.max_trials - first))
        strategies = [self._completed(one.drawn, beaten) for one in asked]
        evaluations = {strategy: self._seen[strategy].evaluation for strategy in strategies if strategy in self._seen}
        new = [strategy for strategy in dict.fromkeys(strategies) if strategy not in evaluations]
        evaluations |= self._evaluator.evaluated(new, beaten)
        for one, strategy in zip(asked, strategies, strict=True):
            evaluation = evaluations[strategy]
            told = self._study.tell(one, self._values(evaluation), evaluation.constraints)
            self._remember(self._trial(strategy, evaluation, told))
        return True

    def _beside_the_sampler(self, first: int) -> Iterator[Mapping[str, Value]]:
        """Changes of the best trial so far, and random trials. They keep a sampler with few good trials exploring."""
        rng = Random(f"{self.settings.seed} {first}")  # noqa: S311 - no secret
        best = min(self.trials, key=lambda trial: (max(trial.evaluation.constraints.values()) > 0.0, trial.evaluation.value))
        for number in range(CHANGED + BY_CHANCE):
            yield self._choices.parameters(
                with_random_changes(best.parameters, rng) if number < CHANGED else with_random_answers({}, rng)
            )

    def _completed(self, draft: Draft, beaten: Beaten) -> ParallelStrategy:
        if draft not in self._drafts:
            self._drafts[draft] = self._evaluator.completed(draft, beaten)
        return self._drafts[draft]

    def _values(self, evaluation: Evaluation) -> tuple[float, ...]:
        peak = evaluation.peak_memory_bytes
        return (evaluation.value, evaluation.value if peak is None else peak) if self.settings.front else (evaluation.value,)

    def _trial(self, strategy: ParallelStrategy, evaluation: Evaluation, told: TrialNotes) -> Trial:
        first = self._seen.get(strategy)
        times = [time_s for time_s in (evaluation.step_time_s, self.trials[-1].best_value if self.trials else None) if time_s]
        return Trial(
            number=len(self.trials),
            source=told.source,
            strategy=strategy,
            evaluation=evaluation,
            best_value=min(times, default=None),
            duplicate_of=None if first is None else first.number,
            parameters=told.parameters,
            attributes=told.attributes,
        )

    def _remember(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._seen.setdefault(trial.strategy, trial)

    @property
    def _beaten(self) -> Beaten:
        """Times and peaks that a trial must beat: of one plan, or of each plan that needs no more memory."""
        found = [*self._first, *(of_trial for trial in self._seen.values() if (of_trial := _numbers(trial)) is not None)]
        return found if self.settings.front else [(min(time_s for time_s, _ in found), 0.0)]

    @property
    def best_s(self) -> float | None:
        """The shortest step of all trials so far that were simulated."""
        return self.trials[-1].best_value if self.trials else None

    def best_first(self) -> list[Trial]:
        """Distinct trials that were simulated and fit, by time."""
        found = [trial for trial in self._seen.values() if _numbers(trial) is not None]
        return sorted(found, key=lambda trial: (trial.evaluation.value, trial.number))


def _numbers(trial: Trial) -> tuple[float, float] | None:
    evaluation = trial.evaluation
    if evaluation.outcome != FITS or evaluation.step_time_s is None or evaluation.peak_memory_bytes is None:
        return None
    return evaluation.step_time_s, evaluation.peak_memory_bytes

"""Optuna in memory, asked and told batch by batch.

Each batch is drawn with its own seed, so that a study that is continued from its stored trials proposes the same as one that
never stopped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from search.trials.named_choices import Choose, Value
from search.trials.trial import SAMPLED, Trial

POPULATION = 50

Drawn = TypeVar("Drawn")
Values = Callable[[Trial], Sequence[float]]


@dataclass(frozen=True)
class Asked(Generic[Drawn]):
    """What a proposal came to, and the handle by which its sampler is told."""

    drawn: Drawn
    trial: optuna.Trial


@dataclass(frozen=True)
class Told:
    """Of a trial: its parameters, where it came from, and the sampler's own notes."""

    parameters: Mapping[str, Value]
    source: str
    attributes: Mapping[str, Any]


class Asker(Generic[Drawn]):
    """A sampler of things that ``draw`` makes of choices; ``num_objectives`` are minimised."""

    def __init__(self, sampler: str, seed: int, draw: Callable[[Choose], Drawn], num_objectives: int = 1) -> None:
        self._name, self._seed, self._draw = sampler, seed, draw
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(directions=["minimize"] * num_objectives, sampler=_sampler(sampler, 0))

    def restore(self, trials: Sequence[Trial], values: Values) -> None:
        """Tell the sampler of trials that another one was told of."""
        self._study.add_trials([_frozen(trial, values(trial), self._distributions(trial)) for trial in trials])

    def _distributions(self, trial: Trial) -> dict[str, BaseDistribution]:
        found: dict[str, BaseDistribution] = {}

        def choose(name: str, offered: Sequence[Value]) -> Value:
            found[name] = _distribution(offered)
            return trial.parameters[name]

        self._draw(choose)
        return found

    def enqueue(self, parameters: Mapping[str, Value], source: str) -> None:
        """Propose this before all else."""
        self._study.enqueue_trial(dict(parameters), user_attrs={"source": source})

    def ask(self, first: int, number: int) -> list[Asked[Drawn]]:
        """So many proposals, the first of them the trial of that number."""
        self._study.sampler = _sampler(self._name, _batch_seed(self._seed, first))
        asked = [self._study.ask() for _ in range(number)]
        return [Asked(self._draw(_choices_of(trial)), trial) for trial in asked]

    def tell(self, asked: Asked[Drawn], values: Sequence[float], constraints: Mapping[str, float]) -> Told:
        """What became of a proposal; it is violated where a constraint is above zero."""
        for name, violation in constraints.items():
            asked.trial.set_constraint(name, violation)
        told = self._study.tell(asked.trial, list(values))
        attributes = {name: value for name, value in told.system_attrs.items() if not name.startswith("constraints")}
        return Told(told.params, told.user_attrs.get("source", SAMPLED), attributes)


class _Nsga2(NSGAIISampler):
    """Keeps parents in one order. Optuna's own differs between those just selected and the same ones remembered."""

    def select_parent(self, study: optuna.Study, generation: int) -> list[optuna.trial.FrozenTrial]:
        return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)


def _distribution(offered: Sequence[Value]) -> BaseDistribution:
    """Numbers in a row are near each other; all else is apart."""
    if isinstance(offered, range):
        return IntDistribution(offered[0], offered[-1])
    return CategoricalDistribution(tuple(offered))


def _choices_of(trial: optuna.Trial) -> Choose:
    def choose(name: str, offered: Sequence[Value]) -> Value:
        if isinstance(offered, range):
            return trial.suggest_int(name, offered[0], offered[-1])
        value = trial.suggest_categorical(name, tuple(offered))
        assert isinstance(value, bool | int | str)  # it is one of those offered
        return value

    return choose


def _batch_seed(seed: int, first_trial: int) -> int:
    return int(np.random.SeedSequence([seed, first_trial]).generate_state(1)[0])


def _sampler(name: str, seed: int) -> BaseSampler:
    if name == "random":
        return RandomSampler(seed)
    if name == "nsga2":
        return _Nsga2(population_size=POPULATION, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # group: a model per set of conditional parameters
        return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


def _frozen(trial: Trial, values: Sequence[float], distributions: Mapping[str, BaseDistribution]) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        state=TrialState.COMPLETE,
        values=list(values),
        params=dict(trial.parameters),
        distributions=dict(distributions),
        system_attrs=dict(trial.attributes),
        constraints=dict(trial.evaluation.constraints),
    )

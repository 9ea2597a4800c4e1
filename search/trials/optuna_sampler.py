"""Optuna in memory: gets proposals and reports their values batch by batch.

Each batch is drawn with its own seed. So a study that is continued from stored trials proposes the same as one that never
stopped.
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
class Proposal(Generic[Drawn]):
    """A proposal: the object that its choices make, and the handle for reporting its value."""

    drawn: Drawn
    trial: optuna.Trial


@dataclass(frozen=True)
class TrialNotes:
    """The parameters of a trial, its source, and the sampler's own notes."""

    parameters: Mapping[str, Value]
    source: str
    attributes: Mapping[str, Any]


class SamplerStudy(Generic[Drawn]):
    """An Optuna study of things that ``draw`` makes of choices; ``num_objectives`` are minimised."""

    def __init__(self, sampler: str, seed: int, draw: Callable[[Choose], Drawn], num_objectives: int = 1) -> None:
        self._name, self._seed, self._draw = sampler, seed, draw
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(directions=["minimize"] * num_objectives, sampler=_sampler(sampler, 0))

    def restore(self, trials: Sequence[Trial], values: Values) -> None:
        """Tell the sampler stored trials."""
        self._study.add_trials([_frozen(trial, values(trial), self._distributions(trial)) for trial in trials])

    def _distributions(self, trial: Trial) -> dict[str, BaseDistribution]:
        found: dict[str, BaseDistribution] = {}

        def choose(name: str, offered: Sequence[Value]) -> Value:
            found[name] = _distribution(offered)
            return trial.parameters[name]

        self._draw(choose)
        return found

    def enqueue(self, parameters: Mapping[str, Value], source: str) -> None:
        """Propose these parameters before all others."""
        self._study.enqueue_trial(dict(parameters), user_attrs={"source": source})

    def ask(self, first: int, number: int) -> list[Proposal[Drawn]]:
        """The next ``number`` proposals; the first one is trial ``first``."""
        self._study.sampler = _sampler(self._name, _batch_seed(self._seed, first))
        asked = [self._study.ask() for _ in range(number)]
        return [Proposal(self._draw(_choices_of(trial)), trial) for trial in asked]

    def tell(self, asked: Proposal[Drawn], values: Sequence[float], constraints: Mapping[str, float]) -> TrialNotes:
        """Tell the values of a proposal. A constraint above zero is violated."""
        for name, violation in constraints.items():
            asked.trial.set_constraint(name, violation)
        told = self._study.tell(asked.trial, list(values))
        attributes = {name: value for name, value in told.system_attrs.items() if not name.startswith("constraints")}
        return TrialNotes(told.params, told.user_attrs.get("source", SAMPLED), attributes)


class _Nsga2(NSGAIISampler):
    """NSGA-II with parents in one order. Optuna's order differs between new and remembered parents."""

    def select_parent(self, study: optuna.Study, generation: int) -> list[optuna.trial.FrozenTrial]:
        return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)


def _distribution(offered: Sequence[Value]) -> BaseDistribution:
    """The distribution of a choice: whole numbers in a row are near each other, other values are categories."""
    if isinstance(offered, range):
        return IntDistribution(offered[0], offered[-1])
    return CategoricalDistribution(tuple(offered))


def _choices_of(trial: optuna.Trial) -> Choose:
    def choose(name: str, offered: Sequence[Value]) -> Value:
        if isinstance(offered, range):
            return trial.suggest_int(name, offered[0], offered[-1])
        value = trial.suggest_categorical(name, tuple(offered))
        assert isinstance(value, bool | int | str)  # one of the offered values
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
        warnings.simplefilter(
            "ignore", optuna.exceptions.ExperimentalWarning
        )  # group: one model for each set of conditional parameters
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

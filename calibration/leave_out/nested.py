"""Nested leave-out: what a prediction errs by where neither the fit nor the numbers behind it have seen the run.

Plain leave-out fits the free constants anew and keeps all else, though most priors and some numbers of modules were read off
the same runs. Here every tuned number (``fitting.tuned_numbers``) is free as well: it starts from what it would be without
runs, with a spread as wide as that is vague, and only the runs that are left in move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibration.fitting.robust_fit import Floats, Observation, log_errors_of, robust_step
from calibration.fitting.tuned_numbers import TUNED, WithoutRuns, numbers_at
from calibration.splits.folds import Fold, Mask
from cost_models.constants import CONSTANTS, Constants

_STEP = 0.02  # of a number's logarithm, for the derivatives
_SMALLEST = 1e-12  # of a number that may be zero
_ROUNDS = 6  # of the fit to all runs with the derivatives that it started from
_CONVERGED = 0.01


@dataclass(frozen=True)
class NestedModel:
    """Every number that runs could have moved, fitted to all runs from what it would be without them.

    ``log_values``, ``prior``, ``spread``, ``low`` and ``high`` are logarithms, ``[number]``; ``log_errors`` and ``jacobian``
    those of ``observations`` there, ``[observation]`` and ``[observation, number]``.
    """

    constants: Constants
    numbers: tuple[WithoutRuns, ...]
    log_values: Floats
    prior: Floats
    spread: Floats
    low: Floats
    high: Floats
    observations: tuple[Observation, ...]
    log_errors: Floats
    jacobian: Floats

    def step(self, teaches: Mask) -> Floats:
        """Change of the log values that the observations that teach ask for. ``[number]``"""
        weights = np.array([o.weight for o in self.observations])
        return robust_step(
            self.log_errors,
            self.jacobian,
            np.where(teaches, weights, 0.0),
            from_prior=self.log_values - self.prior,
            spread=self.spread,
            room=(self.low - self.log_values, self.high - self.log_values),
        )

    def some(self, chosen: Mask) -> NestedModel:
        """The same numbers with some of the observations."""
        own = tuple(o for o, is_chosen in zip(self.observations, chosen, strict=True) if is_chosen)
        return replace(self, observations=own, log_errors=self.log_errors[chosen], jacobian=self.jacobian[chosen])

    def errors_at(self, log_values: Floats, observations: Sequence[Observation]) -> Floats:
        """ln(predicted / measured) of any observations with the numbers at these values."""
        return _errors_at(self.constants, self.numbers, log_values, observations)

    def log_errors_of(self, folds: Sequence[Fold]) -> Floats:
        """Log error of each observation under the fold that judges it, NaN where none does. ``[observation]``"""
        found = np.full(len(self.observations), np.nan)
        for fold in folds:
            judged = [o for o, chosen in zip(self.observations, fold.judged, strict=True) if chosen]
            found[fold.judged] = self.errors_at(self.log_values + self.step(fold.teaches), judged)
        return found


def nested_model(
    observations: Sequence[Observation],
    constants: Constants,
    family: str,
    free: Sequence[str],
    untaught: Sequence[Observation] = (),
) -> NestedModel:
    """The numbers fitted to all observations, from those that ``constants`` and the modules hold.

    ``free`` are the constants that a calibration moves; one whose prior owes nothing to runs keeps that prior. ``untaught``
    follow the observations and teach nothing. The fit keeps the derivatives of where it started, and numbers that move no
    observation go back to what they would be without runs.
    """
    numbers = (*TUNED, *_from_sources(free))
    start = _logs([number.value(constants) for number in numbers])
    errors = log_errors_of(observations, constants)
    columns = []
    for k in range(len(numbers)):
        moved = start.copy()
        moved[k] += _STEP
        columns.append((_errors_at(constants, numbers, moved, observations) - errors) / _STEP)
    silent = [replace(o, weight=0.0) for o in untaught]
    bounds = np.array([number.bounds for number in numbers], dtype=np.float64)
    model = NestedModel(
        constants,
        numbers,
        start,
        _logs([number.neutral(family) for number in numbers]),
        np.array([number.log_spread for number in numbers]),
        _logs(bounds[:, 0]),
        _logs(bounds[:, 1]),
        (*observations, *silent),
        np.concatenate([errors, np.zeros(len(silent))]),
        np.concatenate([np.stack(columns, axis=1), np.zeros((len(silent), len(numbers)))]),
    )
    everything = np.ones(len(model.observations), dtype=bool)
    for _ in range(_ROUNDS):
        step = model.step(everything)
        values = model.log_values + step
        model = replace(model, log_values=values, log_errors=model.errors_at(values, model.observations))
        if np.abs(step).max() < _CONVERGED:
            break
    return model


def _from_sources(free: Sequence[str]) -> list[WithoutRuns]:
    tuned = {number.name for number in TUNED}
    return [
        WithoutRuns(c.name, c.ascend, c.gpu, c.log_spread, c.source) for c in CONSTANTS if c.name in free and c.name not in tuned
    ]


def _errors_at(
    constants: Constants, numbers: Sequence[WithoutRuns], log_values: Floats, observations: Sequence[Observation]
) -> Floats:
    values = {number: float(np.exp(value)) for number, value in zip(numbers, log_values, strict=True)}
    moved = constants.with_values({number.name: value for number, value in values.items() if not number.module})
    with numbers_at(values):
        return log_errors_of(observations, moved)


def _logs(values: Sequence[float] | Floats) -> Floats:
    found: Floats = np.log(np.maximum(np.asarray(values, dtype=np.float64), _SMALLEST))
    return found

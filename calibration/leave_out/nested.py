"""Nested leave-out: errors of predictions when neither the fit nor the numbers behind it have seen the run.

Plain leave-out fits the free constants again and keeps everything else, though most priors and some numbers of modules were read
off the same runs. Here every tuned number (``fitting.tuned_numbers``) is free as well. It starts from its value without runs,
with a spread for the uncertainty of that value, and only the remaining runs move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibration.fitting.robust_fit import Floats, Observation, log_errors_of, robust_step
from calibration.fitting.tuned_numbers import TUNED, WithoutRuns, numbers_at
from calibration.splits.folds import Fold, Mask
from cost_models.constants import CONSTANTS, Constants
from documents.late_methods import dataclass

_STEP = 0.02  # step of a number's logarithm, for derivatives
_SMALLEST = 1e-12  # step of a number that may be zero
_ROUNDS = 6  # iterations of the fit to all runs with its first derivatives
_CONVERGED = 0.01


@dataclass(frozen=True)
class NestedModel:
    """All calibrated numbers, fitted to all runs starting from their values without runs.

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
        """Change of the log values that fits the observations of the fold. ``[number]``"""
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
        """Copy of the model with only the chosen observations."""
        own = tuple(o for o, is_chosen in zip(self.observations, chosen, strict=True) if is_chosen)
        return replace(self, observations=own, log_errors=self.log_errors[chosen], jacobian=self.jacobian[chosen])

    def errors_at(self, log_values: Floats, observations: Sequence[Observation]) -> Floats:
        """ln(predicted / measured) of any observations with the numbers at these values."""
        return _errors_at(self.constants, self.numbers, log_values, observations)

    def log_errors_of(self, folds: Sequence[Fold]) -> Floats:
        """Log error of each observation under the fold that judges it; NaN without one. ``[observation]``"""
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
    """Numbers fitted to all observations; the fit starts from the values in ``constants`` and the modules.

    ``free`` are the constants that a calibration moves; a prior that does not rest on runs is kept. ``untaught`` follow the
    observations and are only predicted. The fit keeps its first derivatives. Numbers that move no observation return to their
    values without runs.
    """
    numbers = (*(number for number in TUNED if number.is_tuned_on(family)), *_from_sources(free))
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

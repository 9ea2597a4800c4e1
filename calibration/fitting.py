"""Robust fit of the named constants to measured step times, with priors and bounds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.recompute_recipe import recompute_by_memory
from calibration.run_records import RunRecord
from cost_models.constants import CONSTANTS, Constants
from cost_models.step import estimate
from cost_models.strategy import StrategyBatch

Floats = NDArray[np.float64]

ERROR_SCALE = 0.06  # log error up to which a residual counts in full: the spread of republished runs [runs-fit]
UNCLEAR_HARDWARE_WEIGHT = 0.5  # a run whose NPU bin is not known
_STEP = 0.02  # of a constant's logarithm, for the Jacobian
_LONGEST_STEP = 0.7
_REWEIGHTINGS = 12
_CONVERGED = 0.01

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Observation:
    """One measured run, ready to be predicted again and again."""

    record: RunRecord
    batch: StrategyBatch
    weight: float

    def log_error(self, constants: Constants) -> float:
        """ln(predicted / measured)."""
        measured_s = self.record.measured.step_time_s
        assert measured_s is not None
        return float(np.log(estimate(self.record.workload, self.batch, constants).step_time_s[0] / measured_s))


@dataclass(frozen=True)
class Fitted:
    """Constants after a fit, and what the fit knows about them.

    ``names`` are the free constants, ``log_values`` their logarithms, ``prior_spread`` and ``spread`` one standard
    deviation of the logarithm before and after, ``at_bound`` those that sit on a bound. ``log_errors`` are the residuals
    of ``observations`` and ``jacobian`` their derivatives ``[observation, name]``.
    """

    constants: Constants
    names: tuple[str, ...]
    log_values: Floats
    prior: Floats
    prior_spread: Floats
    spread: Floats
    at_bound: tuple[str, ...]
    observations: tuple[Observation, ...]
    log_errors: Floats
    jacobian: Floats


def observations_of(records: Sequence[RunRecord], start: Constants) -> tuple[Observation, ...]:
    """Runs that can teach something: a step time, the newest publication of their configuration, nothing suspect.

    Recompute that a source leaves open is settled once, from ``start``'s memory, before the fit.
    """
    chosen = [r for r in records if r.measured.step_time_s and r.is_latest and not r.suspect]
    found = []
    for record in chosen:
        try:
            strategy, _ = recompute_by_memory(record, start)
            batch = StrategyBatch.of([strategy])
            estimate(record.workload, batch, start)
        except ValueError:
            continue  # validation reports these row by row
        found.append(Observation(record, batch, UNCLEAR_HARDWARE_WEIGHT if record.hardware_basis == "unclear" else 1.0))
    return tuple(found)


def fit(
    observations: Sequence[Observation],
    start: Constants,
    names: Sequence[str],
    *,
    iterations: int = 8,
    on_progress: Progress | None = None,
) -> Fitted:
    """Constants that bring predictions closest to the observations, without straying from their priors for nothing.

    Minimises sum_i w_i rho(ln(predicted / measured)) + sum_k ((ln c_k - ln prior_k) / spread_k)^2 by Gauss-Newton steps,
    rho(r) = 2 s^2 (sqrt(1 + (r / s)^2) - 1) so that one odd run cannot pull the rest. ``start`` holds the priors of the free
    constants. Raises ``KeyError`` for an unknown name; with no observation the priors come back.
    """
    known = {c.name: c for c in CONSTANTS}
    chosen = [known[name] for name in names]
    prior = np.log([getattr(start, name) for name in names]) if names else np.zeros(0)
    spread = np.array([c.log_spread for c in chosen])
    low, high = np.log([max(c.low, 1e-12) for c in chosen]), np.log([c.high for c in chosen])
    weights = np.array([o.weight for o in observations])
    values = prior.copy()
    errors, jacobian = np.zeros(0), np.zeros((0, len(names)))
    for iteration in range(iterations if observations and len(names) else 0):
        errors = _log_errors(observations, _with(start, names, values))
        jacobian = _jacobian(observations, start, names, values, errors)
        step = _step(errors, jacobian, weights, values - prior, spread, low - values, high - values)
        values = values + step
        if on_progress:
            on_progress(iteration, float(np.median(np.abs(errors))))
        if np.abs(step).max() < _CONVERGED:
            break
    constants = _with(start, names, values)
    final = _log_errors(observations, constants)
    information = (weights[:, None] * jacobian).T @ jacobian / ERROR_SCALE**2 + np.diag(1.0 / spread**2)
    after = np.sqrt(np.diag(np.linalg.inv(information))) if len(names) else spread
    edge = [n for n, v, lo, hi in zip(names, values, low, high, strict=True) if v - lo < 1e-6 or hi - v < 1e-6]
    return Fitted(constants, tuple(names), values, prior, spread, after, tuple(edge), tuple(observations), final, jacobian)


def left_out_log_errors(fitted: Fitted, start: Constants, groups: Sequence[Hashable]) -> Floats:
    """Log error of every observation under constants fitted without its group. ``[observation]``

    The refit keeps the derivatives of the full fit (they hardly change) and prices the left-out runs anew, which agrees with
    a full refit to a fraction of a per cent and takes seconds instead of hours. A group of ``None`` is never left out:
    those runs always teach, and their error is that of the full fit.
    """
    known = {c.name: c for c in CONSTANTS}
    low = np.log([max(known[name].low, 1e-12) for name in fitted.names])
    high = np.log([known[name].high for name in fitted.names])
    weights = np.array([o.weight for o in fitted.observations])
    offset = fitted.log_values - fitted.prior
    found = fitted.log_errors.copy()
    for group in dict.fromkeys(g for g in groups if g is not None):
        out = np.array([g == group for g in groups])
        step = _step(
            fitted.log_errors,
            fitted.jacobian,
            np.where(out, 0.0, weights),
            offset,
            fitted.prior_spread,
            low - fitted.log_values,
            high - fitted.log_values,
        )
        constants = _with(start, fitted.names, fitted.log_values + step)
        found[out] = _log_errors([o for o, chosen in zip(fitted.observations, out, strict=True) if chosen], constants)
    return found


def _with(start: Constants, names: Sequence[str], log_values: Floats) -> Constants:
    return start.with_values({name: float(np.exp(value)) for name, value in zip(names, log_values, strict=True)})


def _log_errors(observations: Sequence[Observation], constants: Constants) -> Floats:
    return np.array([o.log_error(constants) for o in observations])


def _jacobian(
    observations: Sequence[Observation], start: Constants, names: Sequence[str], values: Floats, errors: Floats
) -> Floats:
    columns = []
    for k in range(len(names)):
        moved = values.copy()
        moved[k] += _STEP
        columns.append((_log_errors(observations, _with(start, names, moved)) - errors) / _STEP)
    return np.stack(columns, axis=1)


def _step(
    errors: Floats, jacobian: Floats, weights: Floats, offset: Floats, spread: Floats, lowest: Floats, highest: Floats
) -> Floats:
    """Robust Gauss-Newton step of the linearised problem, reweighted to convergence, inside the bounds."""
    step = np.zeros(jacobian.shape[1])
    for _ in range(_REWEIGHTINGS):
        residual = errors + jacobian @ step
        robust = weights / np.sqrt(1.0 + (residual / ERROR_SCALE) ** 2) / ERROR_SCALE**2
        normal = jacobian.T @ (robust[:, None] * jacobian) + np.diag(1.0 / spread**2)
        gradient = jacobian.T @ (robust * errors) + offset / spread**2
        step = np.clip(-np.linalg.solve(normal, gradient), lowest, highest)
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
    return step

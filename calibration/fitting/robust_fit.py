"""Robust fit of the named constants to measured step times, with priors and bounds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from calibration.fitting.error_scale import ERROR_SCALE
from calibration.records.recompute_recipe import recompute_by_memory
from calibration.records.training import RunRecord
from cost_models.constants import CONSTANTS, Constants
from cost_models.shapes.strategy import StrategyBatch, concatenate
from cost_models.simulation.step_times import simulate
from documents.late_methods import dataclass
from documents.sentences import Sentence

Floats = NDArray[np.float64]

UNCLEAR_HARDWARE_WEIGHT = 0.5  # weight of a run whose NPU bin is unknown
_STEP = 0.02  # step of a constant's logarithm, for the Jacobian
_LONGEST_STEP = 0.7
_REWEIGHTINGS = 12
_CONVERGED = 0.01

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Observation:
    """One measured run, prepared for repeated predictions."""

    record: RunRecord
    batch: StrategyBatch
    weight: float

    def log_error(self, constants: Constants) -> float:
        """ln(predicted / measured)."""
        measured_s = self.record.measured.step_time_s
        assert measured_s is not None
        return float(np.log(simulate(self.record.workload, self.batch, constants).step_time_s[0] / measured_s))


@dataclass(frozen=True)
class Fitted:
    """Constants after a fit, with their uncertainty.

    ``start`` holds every constant that is not free and the priors of those that are. ``names`` are the free constants,
    ``log_values`` and ``prior`` their logarithms, ``prior_spread`` and ``spread`` one standard deviation of the logarithm
    before and after. ``log_errors`` are the residuals of ``observations`` and ``jacobian`` their derivatives
    ``[observation, name]``.
    """

    start: Constants
    names: tuple[str, ...]
    log_values: Floats
    prior_spread: Floats
    observations: tuple[Observation, ...]
    log_errors: Floats
    jacobian: Floats

    @property
    def constants(self) -> Constants:
        """``start`` with the fitted values."""
        return _with(self.start, self.names, self.log_values)

    @property
    def prior(self) -> Floats:
        """Logarithms of the free constants before the fit. ``[name]``"""
        return _log_values(self.start, self.names)

    @property
    def covariance(self) -> Floats:
        """Laplace covariance of the constants' logarithms, with every residual in full. ``[name, name]``"""
        weights = np.array([o.weight for o in self.observations])
        information = (weights[:, None] * self.jacobian).T @ self.jacobian / ERROR_SCALE**2
        return np.asarray(np.linalg.inv(information + np.diag(1.0 / self.prior_spread**2)), dtype=np.float64)

    @property
    def spread(self) -> Floats:
        """One standard deviation of each constant's logarithm, given the observations. ``[name]``"""
        return np.asarray(np.sqrt(np.diag(self.covariance)), dtype=np.float64)

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Constants at a bound: their value reflects the bound more than the runs."""
        low, high = _bounds(self.names)
        ends = zip(self.names, self.log_values, low, high, strict=True)
        return tuple(name for name, value, lowest, highest in ends if value - lowest < 1e-6 or highest - value < 1e-6)


def observations_of(records: Sequence[RunRecord], start: Constants) -> tuple[Observation, ...]:
    """The runs that a fit can use; ``observation_of`` says why it cannot use the others."""
    return tuple(o for o in (observation_of(record, start) for record in records) if isinstance(o, Observation))


def observation_of(record: RunRecord, start: Constants) -> Observation | str:
    """The run as an observation, or one sentence on why a fit cannot use it.

    Recompute that a source does not state is inferred once, from memory under ``start``, before the fit.
    """
    if not record.measured.step_time_s:
        return Sentence("measured.step_time_s is missing, and no tokens rate stands in for it.")
    if record.suspect:
        return Sentence("The record is marked suspect: {}.", record.suspect.rstrip("."))
    if not record.is_latest:
        return Sentence("The record is marked as an older publication of a configuration (is_latest_for_config is false).")
    try:
        strategy, _ = recompute_by_memory(record, start)
        batch = StrategyBatch.of([strategy])
        simulate(record.workload, batch, start)
    except ValueError as error:
        return Sentence("{}.", str(error).rstrip("."))
    return Observation(record, batch, UNCLEAR_HARDWARE_WEIGHT if record.hardware_basis == "unclear" else 1.0)


def fit(
    observations: Sequence[Observation],
    start: Constants,
    names: Sequence[str],
    *,
    prior_spread: Mapping[str, float] | None = None,
    iterations: int = 8,
    on_progress: Progress | None = None,
) -> Fitted:
    """The constants that minimise the errors of the predictions and the distance from the priors.

    Minimises sum_i w_i rho(ln(predicted / measured)) + sum_k ((ln c_k - ln prior_k) / spread_k)^2 by Gauss-Newton steps,
    rho(r) = 2 s^2 (sqrt(1 + (r / s)^2) - 1) so that one odd run cannot pull the rest. ``start`` holds the priors of the free
    constants, ``prior_spread`` their spreads where they are not those of ``CONSTANTS``. Raises ``KeyError`` for an unknown
    name; with no observation the priors come back.
    """
    values = _log_values(start, names)
    for iteration in range(iterations if observations and len(names) else 0):
        here = linearised(observations, start, names, values, prior_spread=prior_spread)
        step = next_step(here)
        values = values + step
        if on_progress:
            on_progress(iteration, float(np.median(np.abs(here.log_errors))))
        if np.abs(step).max() < _CONVERGED:
            # Keep the derivatives of the last step: no value has moved by more than a per cent since.
            return replace(here, log_values=values, log_errors=log_errors_of(observations, _with(start, names, values)))
    return linearised(observations, start, names, values, prior_spread=prior_spread)


def linearised(
    observations: Sequence[Observation],
    start: Constants,
    names: Sequence[str],
    log_values: Floats,
    *,
    prior_spread: Mapping[str, float] | None = None,
) -> Fitted:
    """Errors and their derivatives at these values of the free constants, without a fit."""
    known = {c.name: c.log_spread for c in CONSTANTS} | dict(prior_spread or {})
    spread = np.array([known[name] for name in names])
    errors = log_errors_of(observations, _with(start, names, log_values))
    jacobian = _jacobian(observations, start, names, log_values, errors)
    return Fitted(start, tuple(names), log_values, spread, tuple(observations), errors, jacobian)


def next_step(fitted: Fitted, left_out: NDArray[np.bool_] | None = None) -> Floats:
    """Change of the log constants that fits the observations without those left out; zero after a fit to all. ``[name]``

    A robust Gauss-Newton step of the linearised problem, reweighted to convergence, inside the bounds.
    """
    weights = np.array([o.weight for o in fitted.observations])
    if left_out is not None:
        weights = np.where(left_out, 0.0, weights)
    low, high = _bounds(fitted.names)
    return robust_step(
        fitted.log_errors,
        fitted.jacobian,
        weights,
        from_prior=fitted.log_values - fitted.prior,
        spread=fitted.prior_spread,
        room=(low - fitted.log_values, high - fitted.log_values),
    )


def robust_step(
    errors: Floats, jacobian: Floats, weights: Floats, *, from_prior: Floats, spread: Floats, room: tuple[Floats, Floats]
) -> Floats:
    """The change of log values that fits the weighted errors, reweighted to convergence. ``[value]``

    ``from_prior`` is the distance of the values from their priors, which have the spread ``spread``; ``room`` is the distance
    to their lower and upper bounds.
    """
    low, high = room
    step = np.zeros(jacobian.shape[1])
    for _ in range(_REWEIGHTINGS):
        residual = errors + jacobian @ step
        robust = weights / np.sqrt(1.0 + (residual / ERROR_SCALE) ** 2) / ERROR_SCALE**2
        normal = jacobian.T @ (robust[:, None] * jacobian) + np.diag(1.0 / spread**2)
        gradient = jacobian.T @ (robust * errors) + from_prior / spread**2
        step = np.clip(-np.linalg.solve(normal, gradient), low, high)
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
    return step


def left_out_log_errors(fitted: Fitted, groups: Sequence[Hashable], *, is_linear: bool = False) -> Floats:
    """Log error of every observation under constants fitted without its group. ``[observation]``

    The refit keeps the derivatives of the full fit, which hardly change, and prices the left-out runs anew. It agrees with a
    full refit to a fraction of a per cent and takes seconds instead of hours; ``is_linear`` extrapolates them instead. A group
    of ``None`` is never left out: a fit always uses those runs, and their error is that of the full fit.
    """
    found = fitted.log_errors.copy()
    for group in dict.fromkeys(g for g in groups if g is not None):
        out = np.array([g == group for g in groups])
        step = next_step(fitted, out)
        if is_linear:
            found[out] += fitted.jacobian[out] @ step
            continue
        constants = _with(fitted.start, fitted.names, fitted.log_values + step)
        found[out] = log_errors_of([o for o, chosen in zip(fitted.observations, out, strict=True) if chosen], constants)
    return found


def _log_values(constants: Constants, names: Sequence[str]) -> Floats:
    return np.log(np.array([getattr(constants, name) for name in names], dtype=np.float64))


def _bounds(names: Sequence[str]) -> tuple[Floats, Floats]:
    known = {c.name: c for c in CONSTANTS}
    low = np.array([max(known[name].low, 1e-12) for name in names], dtype=np.float64)
    return np.log(low), np.log(np.array([known[name].high for name in names], dtype=np.float64))


def _with(start: Constants, names: Sequence[str], log_values: Floats) -> Constants:
    return start.with_values({name: float(np.exp(value)) for name, value in zip(names, log_values, strict=True)})


def log_errors_of(observations: Sequence[Observation], constants: Constants) -> Floats:
    """ln(predicted / measured) of each observation. Runs of one workload are priced together, which halves the time of a fit."""
    rows_of: dict[Hashable, list[int]] = {}
    for i, observation in enumerate(observations):
        rows_of.setdefault(_pricing_key(observation), []).append(i)
    found = np.zeros(len(observations))
    for rows in rows_of.values():
        batch = concatenate([observations[i].batch for i in rows])
        predicted_s = simulate(observations[rows[0]].record.workload, batch, constants).step_time_s
        found[rows] = np.log(predicted_s / [observations[i].record.measured.step_time_s for i in rows])
    return found


def _pricing_key(observation: Observation) -> Hashable:
    """Key of runs that form one batch: the workload, and the batch's tables of layouts and plans."""
    workload, batch = observation.record.workload, observation.batch
    cluster = workload.cluster
    site = tuple(getattr(cluster, field.name) for field in fields(cluster) if field.name != "profile")
    return workload.model, workload.training, workload.software, id(cluster.profile), site, batch.layouts, batch.recompute_plans


def _jacobian(
    observations: Sequence[Observation], start: Constants, names: Sequence[str], values: Floats, errors: Floats
) -> Floats:
    columns = []
    for k in range(len(names)):
        moved = values.copy()
        moved[k] += _STEP
        columns.append((log_errors_of(observations, _with(start, names, moved)) - errors) / _STEP)
    return np.stack(columns, axis=1) if columns else np.zeros((len(observations), 0))

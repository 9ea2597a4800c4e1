"""Estimates of a batch of strategies, with breakdowns."""

from __future__ import annotations

from collections.abc import Sequence

from app.calibrations.constants import constants_for
from calibration.files.calibrations import Calibration
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from cost_models.step.priced_groups import KnownPipelines
from cost_models.step.result import Estimate


def numbers_of(
    workload: Workload,
    batch: StrategyBatch,
    own: Sequence[Calibration],
    *,
    simulated: bool = False,
    known: KnownPipelines | None = None,
) -> Estimate:
    """Estimate the strategies. ``known`` are shared prices of earlier strategies of the workload; simulations ignore them."""
    constants = constants_for(workload, own)
    if simulated:
        return simulate(workload, batch, constants, breakdown=True)
    return estimate(workload, batch, constants, breakdown=True, known=known)

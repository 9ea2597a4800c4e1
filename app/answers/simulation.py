"""Steps simulated task by task: their time, waits of ranks, peaks of memory, and every bar of one step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.answers.step_schemas import SimulatedCommunication, SimulatedRank, Simulation
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from cost_models.simulation.memory_curve import MemoryCurve, memory_curves
from cost_models.simulation.replay import Replay, replay
from cost_models.simulation.timeline import MAX_TASKS, Timeline, check_length, num_tasks, origins_s, timeline
from cost_models.step.result import Estimate
from cost_models.step.steady_masking import steady_masked_fraction
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence

MAX_SIMULATED_TASKS = 1_000_000  # about a minute without a steady state, a second with one


@dataclass(frozen=True)
class PlayedStep:
    timeline: Timeline
    memory: list[MemoryCurve]  # memory by rank, on the time axis of the rank's bars


def play(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> PlayedStep:
    """Simulate the step. ``ValueError``, without a full stop, if it is too long or has too few micro batches for its schedule."""
    played = _replayed(workload, strategy, constants)
    with np.errstate(all="ignore"):
        shown = timeline(workload, played, constants)
    if not np.isfinite(shown.step_time_s):
        raise ValueError(Sentence("the numbers of the job lead to times beyond 1e308"))
    return PlayedStep(shown, _memory(workload, played))


def _replayed(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> Replay:
    check_length(workload, strategy)
    with np.errstate(all="ignore"):
        return replay(workload, strategy, constants)


def _memory(workload: Workload, played: Replay) -> list[MemoryCurve]:
    curves = zip(memory_curves(workload, played), origins_s(played).tolist(), strict=True)
    return [
        MemoryCurve([max(time_s - origin_s, 0.0) for time_s in curve.times_s], curve.allocated_bytes)
        for curve, origin_s in curves
    ]


def check_cost(workload: Workload, strategies: Iterable[ParallelStrategy], field: str) -> None:
    """``InputError`` for more tasks than one request simulates; strategies with one pipeline are simulated together."""
    pipelines = {
        (s.schedule, s.pp, s.vpp, s.micro_batch_size * s.dp, s.microbatch_group_size_per_vp_stage): num_tasks(workload, s)
        for s in strategies
    }
    total = sum(pipelines.values())
    if total > MAX_SIMULATED_TASKS:
        raise InputError(
            Sentence(
                "{}: {:,} tasks (pp x vpp x micro batches, both passes, of all distinct pipelines) are more than "
                "the {:,} that are simulated at once; simulate less at a time, or leave simulate out.",
                field,
                total,
                MAX_SIMULATED_TASKS,
            )
        )


def can_simulate(workload: Workload, strategy: ParallelStrategy) -> bool:
    """Whether the step has few enough tasks for one request, so that it is simulated as the plans of a search are."""
    return num_tasks(workload, strategy) <= MAX_SIMULATED_TASKS


def simulation_document(
    workload: Workload, strategy: ParallelStrategy, constants: Constants, found: Estimate, closed_form_s: float
) -> Simulation:
    """Results of the simulation beyond an estimate; ``found`` is the estimate of the strategy, with its breakdown."""
    assert found.breakdown is not None
    assert found.stage_bubble_s is not None
    assert found.stage_peak_memory_bytes is not None
    exposed, masked = found.breakdown.time_s, found.breakdown.masked_s
    peaks_at_s: list[float | None] = [None] * strategy.pp
    if num_tasks(workload, strategy) <= MAX_TASKS:
        curves = _memory(workload, _replayed(workload, strategy, constants))
        peaks_at_s = [curve.times_s[int(np.argmax(curve.allocated_bytes))] for curve in curves]
    bubbles, peaks = found.stage_bubble_s[:, 0].tolist(), found.stage_peak_memory_bytes[:, 0].tolist()
    return Simulation(
        closed_form_step_time_s=closed_form_s,
        communication={
            name: SimulatedCommunication(
                exposed_s=float(exposed[name][0]),
                masked_s=float(masked[name][0]),
                steady_masked_fraction=steady_masked_fraction(workload, strategy, constants) if name == "ep_comm" else None,
            )
            for name in masked
        },
        ranks=[
            SimulatedRank(rank=rank, bubble_s=bubble, peak_memory_bytes=peak, peak_at_s=at_s)
            for rank, (bubble, peak, at_s) in enumerate(zip(bubbles, peaks, peaks_at_s, strict=True))
        ],
    )

"""One strategy's simulated step with the start and the end of every task."""

from __future__ import annotations

from cost_models.constants import Constants
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.lockstep import Durations, task_times_s
from cost_models.simulation.program import Program, compiled
from cost_models.simulation.step_times import GroupTasks, exchange_left_s, pipeline_shapes
from cost_models.step.priced_groups import PricedGroup, priced_groups
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Replay:
    """A simulated step. ``starts_s`` and ``ends_s`` belong to ``program.steps``; time 0 is when the first rank could start.

    ``group`` holds the one strategy, ``[rank, 1]``. ``reduce_s`` ``[rank]`` is the gradient reduction after each rank's last
    task,
    ``gather_s`` ``[rank]`` the gathering of weights before its first.
    """

    program: Program
    starts_s: list[float]
    ends_s: list[float]
    group: PricedGroup
    tasks: GroupTasks
    reduce_s: Floats
    gather_s: Floats


def replay(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> Replay:
    """Simulate one strategy and keep the times of its tasks; raises ``ValueError`` as ``simulate`` does."""
    _, group = next(priced_groups(workload, StrategyBatch.of([strategy]), constants, merge=False, tables=True))
    _, shape = next(pipeline_shapes(group))
    program, tasks = compiled(shape), GroupTasks(group)
    reduce_s, gather_s = exchange_left_s(group, constants)
    durations, _ = tasks.of(program)
    starts_s, ends_s = task_times_s(program, Durations(durations, tasks.hop_s, gather_s), 0)
    return Replay(program, starts_s, ends_s, group, tasks, reduce_s[:, 0], gather_s[:, 0])

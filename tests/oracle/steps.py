"""Whole steps of strategies, each played alone and event by event."""

from typing import Any

from cost_models.constants import Constants
from cost_models.schedules.orders import next_places
from cost_models.schedules.tasks import Pass
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.program import TaskClass
from cost_models.simulation.step_times import GroupTasks, exchange_left_s, pipeline_shapes
from cost_models.step.priced_groups import priced_batch
from tests.oracle.event_loop import Durations, play
from tests.pipelines import KINDS, oracle_rule


def step_s(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> float:
    """What a step takes, from the times of its tasks: every micro batch is played, no period is taken to repeat another."""
    ((_, group),) = priced_batch(workload, StrategyBatch.of([strategy]), constants).groups(merge=False, tables=False)
    assert not group.stages.schedule.rules.overlaps_steps, "a step would be the interval between two of them"
    ((_, shape),) = pipeline_shapes(group)
    tasks, following = GroupTasks(group), next_places(shape)
    reduce_s, gather_s = exchange_left_s(group, constants)

    def duration(kind: Pass) -> Any:
        def value(rank: int, chunk: int, micro_batch: int, behind: int = -1, _: int = -1) -> float:
            task = TaskClass(kind, rank, chunk, behind)
            return float(tasks.duration_s(task, GroupTasks.num_sends(shape, following, task))[0])

        return _once_a_class(value)

    times = Durations(**{name: duration(kind) for kind, name in KINDS.items()})
    played = play(oracle_rule(shape), shape.pp, times, p2p_s=float(tasks.hop_s[0]), start_s=gather_s[:, 0].tolist())
    end_s = max(spans[-1].end_s + float(reduce_s[rank, 0]) for rank, spans in enumerate(played.spans))
    return end_s + float(group.sharded.optimizer_s[0]) + constants.step_overhead_s


def _once_a_class(value: Any) -> Any:
    known: dict[tuple[int, int, int], float] = {}

    def looked_up(rank: int, chunk: int, micro_batch: int, behind: int = -1, _: int = -1) -> float:
        key = rank, chunk, behind
        if key not in known:
            known[key] = value(rank, chunk, micro_batch, behind)
        return known[key]

    return looked_up

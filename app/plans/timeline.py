"""A simulated step as columns."""

from __future__ import annotations

from app.answers.simulation import PlayedStep
from app.jobs.job import SCHEMA_VERSION
from app.plans.schemas import MemoryColumns, PlanTimeline, TaskColumns
from cost_models.simulation.task_bars import Kind, Stream


def timeline_document(played: PlayedStep) -> PlanTimeline:
    """Bars of the step, and the memory of each rank."""
    shown, bars = played.timeline, played.timeline.bars
    return PlanTimeline(
        schema_version=SCHEMA_VERSION,
        step_time_s=shown.step_time_s,
        num_ranks=shown.num_ranks,
        streams=[stream.label for stream in Stream],
        kinds=[kind.label for kind in Kind],
        tasks=TaskColumns.model_validate({name: getattr(bars, name).tolist() for name in TaskColumns.model_fields}),
        memory=MemoryColumns(
            rank=list(range(len(played.memory))),
            time_s=[curve.times_s for curve in played.memory],
            bytes=[curve.allocated_bytes for curve in played.memory],
        ),
        bubble_s=shown.bubble_s.tolist(),
    )

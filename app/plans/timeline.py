"""One strategy's step, played and written as columns."""

from __future__ import annotations

from typing import Any

from app.answers.simulating import PlayedStep, play
from app.answers.trace import trace_text
from app.jobs.job import SCHEMA_VERSION
from app.plans.service import stored_plan
from app.storage.session import Database
from app.studies import service as studies
from cost_models.simulation.task_bars import Kind, Stream


def columns(played: PlayedStep) -> dict[str, Any]:
    """The step as the dashboard reads it."""
    shown = played.timeline
    names = ("rank", "stream", "kind", "chunk", "micro_batch", "start_s", "end_s")
    return {
        "schema_version": SCHEMA_VERSION,
        "step_time_s": shown.step_time_s,
        "num_ranks": shown.num_ranks,
        "streams": [stream.label for stream in Stream],
        "kinds": [kind.label for kind in Kind],
        "tasks": {name: getattr(shown.bars, name).tolist() for name in names},
        "memory": {
            "rank": list(range(len(played.memory))),
            "time_s": [curve.times_s for curve in played.memory],
            "bytes": [curve.allocated_bytes for curve in played.memory],
        },
        "bubble_s": shown.bubble_s.tolist(),
    }


def plan_step(database: Database, study_id: str, plan_id: str) -> PlayedStep:
    """A stored plan, played; ``StudyConflict`` where that cannot be."""
    plan = stored_plan(database, study_id, plan_id)
    try:
        return play(plan.workload, plan.strategy, plan.constants)
    except ValueError as error:
        raise studies.StudyConflict(f"The plan has no timeline: {error}.") from None


def plan_trace(database: Database, study_id: str, plan_id: str) -> str:
    """A stored plan's step as a trace."""
    return trace_text(plan_step(database, study_id, plan_id))

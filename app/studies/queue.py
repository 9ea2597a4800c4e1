"""Studies as a queue: a worker holds a study under a lease that it renews, and writes nothing once it has lost it.

Every claim raises ``lease_token``. Each write of a worker compares it in the same transaction, so a worker that was taken
for dead and comes back finds its writes refused: no trial is lost, and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.tables import Point, Study, Trial
from app.studies import queue_order, repository
from app.studies.work import Outcome
from documents.late_methods import dataclass
from documents.sentences import Sentence

MAX_ATTEMPTS_WITHOUT_PROGRESS = 10  # a study that kills its workers must not block the others
NUM_DOUBTS = "num_doubts"  # key of a checkpoint: first warnings that the next outcome replaces
BACK_OFF_S = 0.5  # grows with the square of consecutive deaths; ten deaths take at least two and a half minutes
# A lease that ends later than this was written before the clock was set back. A lease has at most 10 s. The extra minute is for
# transactions that began earlier or have another clock: they may see newer leases. Without it, two workers took one study.
MAX_AHEAD_S = 10.0 + 60.0


class LeaseLostError(Exception):
    """Another worker holds the study now, or it is deleted; unsaved results are lost."""


@dataclass(frozen=True)
class Lease:
    study_id: str
    token: int


def claim(session: Session, owner: str, lease_s: float) -> Lease | None:
    """Claim a study whose worker was silent for its lease, or the next one in the queue."""
    while True:
        now = now_s(session)
        left = select(Study).where(Study.state == "running", _is_left(now)).order_by(Study.number)
        waiting = select(Study).where(Study.state == "queued").order_by(Study.turn, Study.number)
        first = (session.scalars(query.limit(1).with_for_update(skip_locked=True)).first() for query in (left, waiting))
        study = next((found for found in first if found is not None), None)
        if study is None:
            return None
        if study.attempts_without_progress < MAX_ATTEMPTS_WITHOUT_PROGRESS:
            break
        _end(
            session,
            study,
            "failed",
            Sentence("{} workers in a row died on it without getting further.", study.attempts_without_progress),
        )
    study = queue_order.taken(session, study)
    study.state = "running"
    study.attempts += 1
    study.attempts_without_progress += 1
    study.lease_token += 1
    study.lease_owner, study.heartbeat_at_s, study.lease_expires_at_s = owner, now, now + lease_s
    study.started_at_s = study.started_at_s or now
    repository.touch(session, study)
    return Lease(study.id, study.lease_token)


def _is_left(now: float) -> ColumnElement[bool]:
    """Whether the worker was silent for its lease, or longer after several deaths in a row."""
    deaths = Study.attempts_without_progress
    return or_(
        Study.lease_expires_at_s + BACK_OFF_S * (deaths - 1) * deaths < now,
        Study.lease_expires_at_s > now + MAX_AHEAD_S,
    )


def is_held(study: Study, now: float) -> bool:
    """Whether a worker that may be alive has a lease of the study."""
    expires_at_s = study.lease_expires_at_s
    return study.state == "running" and expires_at_s is not None and now <= expires_at_s <= now + MAX_AHEAD_S


def renew(session: Session, lease: Lease, lease_s: float) -> None:
    """Extend the lease."""
    study = _held(session, lease)
    study.heartbeat_at_s = now_s(session)
    study.lease_expires_at_s = study.heartbeat_at_s + lease_s


def is_cancel_requested(session: Session, lease: Lease) -> bool:
    row = session.execute(
        select(Study.state, Study.lease_token, Study.cancel_requested).where(Study.id == lease.study_id)
    ).first()
    if row is None or row.state != "running" or row.lease_token != lease.token:
        raise LeaseLostError(lease.study_id)
    return bool(row.cancel_requested)


def save(
    session: Session,
    lease: Lease,
    progress: dict[str, Any],
    checkpoint: dict[str, Any],
    records: Sequence[dict[str, Any]],
    table: type[Trial | Point] | None = Trial,
) -> None:
    """Save progress, checkpoint and the records since the last one, all or nothing."""
    study = _held(session, lease)
    study.checkpoint = checkpoint
    if table is not None:
        session.flush()
        repository.add_records(session, table, study.id, records)
    tell(session, lease, progress)


def tell(session: Session, lease: Lease, progress: dict[str, Any]) -> None:
    """Save progress only; the checkpoint stays."""
    study = _held(session, lease)
    study.progress = progress
    study.attempts_without_progress = 0
    study.row_version += 1
    session.flush()
    repository.announce_progress(session, study.id, progress)


def start_over(session: Session, lease: Lease) -> None:
    """Drop a checkpoint that this version cannot continue, with the records that belong to it."""
    study = _held(session, lease)
    study.checkpoint = study.progress = None
    session.flush()
    repository.forget_records(session, study.id)


def release(session: Session, lease: Lease) -> None:
    """Return the study to the queue, because its worker must end."""
    study = _held(session, lease)
    study.state, study.attempts_without_progress = "queued", 0
    study.lease_owner = study.lease_expires_at_s = None
    repository.touch(session, study)


def finish(session: Session, lease: Lease, version: str, outcome: Outcome) -> None:
    """End the study with its results; ``version`` is the version of meshplan."""
    study = _held(session, lease)
    study.version = version
    if outcome.result is not None:
        study.result = outcome.result
        study.assumptions = list(outcome.assumptions)
        study.warnings = [*outcome.doubts, *(study.warnings if outcome.warnings is None else outcome.warnings)]
        if study.checkpoint is not None:
            study.checkpoint = {**study.checkpoint, NUM_DOUBTS: len(outcome.doubts)}
        repository.replace_plans(session, study.id, [_plan_row(plan) for plan in outcome.plans])
        rows = [{"position": position, **rejection} for position, rejection in enumerate(outcome.rejections, start=1)]
        repository.replace_rejections(session, study.id, rows)
    _end(session, study, outcome.state, outcome.error)


def _end(session: Session, study: Study, state: str, error: str | None) -> None:
    study.state, study.error, study.finished_at_s = state, error, now_s(session)
    study.lease_owner = study.lease_expires_at_s = None
    if state == "completed":
        study.checkpoint = None
    repository.forget_progress(session, study.id)
    repository.touch(session, study)
    if error is not None:
        repository.write_text(session, study)


def _held(session: Session, lease: Lease) -> Study:
    """The study with its row locked until the transaction ends."""
    query = select(Study).where(Study.id == lease.study_id, Study.state == "running", Study.lease_token == lease.token)
    study = session.scalars(query.with_for_update()).one_or_none()
    if study is None:
        raise LeaseLostError(lease.study_id)
    return study


def _plan_row(plan: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: plan["estimate"][name] for name in ("step_time_s", "peak_memory_bytes")}
    return {"rank": plan["rank"], "plan_id": plan["plan_id"], **numbers, "document": plan}

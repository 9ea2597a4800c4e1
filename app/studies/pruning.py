"""Deletion of old rows: the audit log, stored answers, and, on request, finished studies and kept checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from app.http import audit
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import AuditRecord, IdempotencyRecord, KeptCheck, Study
from app.studies import repository
from app.studies.access import UNFINISHED

KEEP_ANSWERS_S = 24 * 3600.0  # days for which a repeated Idempotency-Key gets the first answer
SECONDS_PER_DAY = 86_400.0
STATEMENT_S = 60.0
_MANY = 50  # studies per transaction, so that nobody waits long


@dataclass(frozen=True)
class Retention:
    """Days for which rows are kept; 0 for ``studies_days`` and ``checks_days`` is for ever; studies count from their end.

    Archived rows are kept at any age, unless ``archived`` is true.
    """

    studies_days: int = 0
    audit_days: int = 365
    archived: bool = False
    checks_days: int = 0


@dataclass(frozen=True)
class Pruned:
    """Numbers of rows that were deleted, or would be."""

    studies: int
    audit_records: int
    kept_answers: int
    checks: int


def count(database: Database, retention: Retention) -> Pruned:
    """Count the rows that ``prune`` would delete."""
    with database.read() as session:
        now = now_s(session)
        old = (
            (Study.number, _old_studies(now, retention)),
            (AuditRecord.number, [AuditRecord.at_s < _audit_before(now, retention)]),
            (IdempotencyRecord.key, [IdempotencyRecord.created_at_s < now - KEEP_ANSWERS_S]),
            (KeptCheck.number, _old_checks(now, retention)),
        )
        return Pruned(*(session.scalar(select(func.count(column)).where(*filters)) or 0 for column, filters in old))


def prune(database: Database, retention: Retention) -> Pruned:
    """Delete in many small transactions, so that requests and workers go on meanwhile. Safe to run twice at once."""
    with database.read() as session:
        now = now_s(session)
    studies = _all(database, lambda session: _prune_studies(session, now, retention)) if retention.studies_days else 0
    records = _all(database, lambda session: audit.forget(session, _audit_before(now, retention)))
    checks = _all(database, lambda session: _prune_checks(session, now, retention)) if retention.checks_days else 0
    with database.write() as session:
        answers = repository.forget_idempotent(session, KEEP_ANSWERS_S)
    return Pruned(studies, records, answers, checks)


def _old_studies(now: float, retention: Retention) -> list[ColumnElement[bool]]:
    if not retention.studies_days:
        return [Study.number < 0]
    kept = [] if retention.archived else [Study.archived.is_(False)]
    return [Study.state.not_in(UNFINISHED), Study.finished_at_s < now - retention.studies_days * SECONDS_PER_DAY, *kept]


def _old_checks(now: float, retention: Retention) -> list[ColumnElement[bool]]:
    if not retention.checks_days:
        return [KeptCheck.number < 0]
    kept = [] if retention.archived else [KeptCheck.archived.is_(False)]
    return [KeptCheck.created_at_s < now - retention.checks_days * SECONDS_PER_DAY, *kept]


def _audit_before(now: float, retention: Retention) -> float:
    return now - retention.audit_days * SECONDS_PER_DAY


def _prune_studies(session: Session, now: float, retention: Retention) -> int:
    query = select(Study.id).where(*_old_studies(now, retention)).order_by(Study.number).limit(_MANY)
    chosen = session.scalars(query.with_for_update(skip_locked=True)).all()
    if chosen:
        session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.study_id.in_(chosen)))
        session.execute(delete(Study).where(Study.id.in_(chosen)))  # the database deletes their dependent rows
    return len(chosen)


def _prune_checks(session: Session, now: float, retention: Retention) -> int:
    query = select(KeptCheck.id).where(*_old_checks(now, retention)).order_by(KeptCheck.number).limit(_MANY)
    chosen = session.scalars(query.with_for_update(skip_locked=True)).all()
    if chosen:
        session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.study_id.in_(chosen)))
        session.execute(delete(KeptCheck).where(KeptCheck.id.in_(chosen)))
    return len(chosen)


def _all(database: Database, some: Callable[[Session], int]) -> int:
    total = 0
    while True:
        with database.write() as session:
            number = some(session)
        if not number:
            return total
        total += number

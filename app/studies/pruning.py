"""Deletion of old rows: the audit log, stored answers, and, on request, finished studies and kept checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from app.http import audit
from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.sqlite import ASK_AGAIN_S
from app.storage.tables import AuditRecord, Calibration, IdempotencyRecord, KeptCheck, MeasuredRun, Study
from app.studies import repository
from app.studies.access import UNFINISHED
from documents.late_methods import dataclass

KEEP_ANSWERS_S = 24 * 3600.0  # days for which a repeated Idempotency-Key gets the first answer
SECONDS_PER_DAY = 86_400.0
STATEMENT_S = 60.0
TRANSACTION_S = 0.3  # seconds that a transaction aims at: on SQLite, writers wait meanwhile
_FIRST, _MOST = 50, 5_000  # rows of the first transaction, and of any
_A_STATEMENT = 500  # rows that a statement names
_PAUSE_S = 4 * ASK_AGAIN_S  # on SQLite, so that waiting writers come next


@dataclass(frozen=True)
class Retention:
    """Days for which rows are kept; 0 is for ever, except for ``audit_days``; studies count from their end.

    Archived rows are kept at any age, unless ``archived`` is true.
    """

    studies_days: int = 0
    audit_days: int = 365
    archived: bool = False
    checks_days: int = 0
    runs_days: int = 0  # of measured runs and calibrations


@dataclass(frozen=True)
class Pruned:
    """Numbers of rows that were deleted, or would be."""

    studies: int
    audit_records: int
    kept_answers: int
    checks: int
    runs: int = 0
    calibrations: int = 0


def count(database: Database, retention: Retention) -> Pruned:
    """Count the rows that ``prune`` would delete."""
    with database.read() as session:
        now = now_s(session)
        old = (
            (Study.number, _old_studies(now, retention)),
            (AuditRecord.number, [AuditRecord.at_s < _audit_before(now, retention)]),
            (IdempotencyRecord.key, [IdempotencyRecord.created_at_s < now - KEEP_ANSWERS_S]),
            (KeptCheck.number, _old_checks(now, retention)),
            (MeasuredRun.number, _old_rows(MeasuredRun, now, retention)),
            (Calibration.number, _old_rows(Calibration, now, retention)),
        )
        return Pruned(*(session.scalar(select(func.count(column)).where(*filters)) or 0 for column, filters in old))


def prune(database: Database, retention: Retention) -> Pruned:
    """Delete in many small transactions, so that requests and workers go on meanwhile. Safe to run twice at once."""
    with database.read() as session:
        now = now_s(session)
    studies = _all(database, partial(_prune_studies, now=now, retention=retention)) if retention.studies_days else 0
    records = _all(database, partial(audit.forget, _audit_before(now, retention)))
    checks = _all(database, partial(_prune_checks, now=now, retention=retention)) if retention.checks_days else 0
    answers = _all(database, partial(repository.forget_idempotent, older_than_s=KEEP_ANSWERS_S))
    owned = (
        _all(database, partial(_prune_rows, table, now=now, retention=retention)) if retention.runs_days else 0
        for table in (MeasuredRun, Calibration)
    )
    return Pruned(studies, records, answers, checks, *owned)


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


def _old_rows(table: type[MeasuredRun | Calibration], now: float, retention: Retention) -> list[ColumnElement[bool]]:
    if not retention.runs_days:
        return [table.number < 0]
    return [table.created_at_s < now - retention.runs_days * SECONDS_PER_DAY]


def _audit_before(now: float, retention: Retention) -> float:
    return now - retention.audit_days * SECONDS_PER_DAY


def _prune_studies(session: Session, most: int, *, now: float, retention: Retention) -> int:
    return _prune_with_answers(session, Study, _old_studies(now, retention), most)  # the database deletes dependent rows


def _prune_checks(session: Session, most: int, *, now: float, retention: Retention) -> int:
    return _prune_with_answers(session, KeptCheck, _old_checks(now, retention), most)


def _prune_with_answers(session: Session, table: type[Study | KeptCheck], old: Sequence[ColumnElement[bool]], most: int) -> int:
    query = select(table.number, table.id).where(*old).order_by(table.number).limit(most)
    chosen = session.execute(query.with_for_update(skip_locked=True)).all()
    for start in range(0, len(chosen), _A_STATEMENT):
        some = chosen[start : start + _A_STATEMENT]
        session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.study_id.in_([row.id for row in some])))
        session.execute(delete(table).where(table.number.in_([row.number for row in some])))
    return len(chosen)


def _prune_rows(table: type[MeasuredRun | Calibration], session: Session, most: int, *, now: float, retention: Retention) -> int:
    query = select(table.number).where(*_old_rows(table, now, retention)).order_by(table.created_at_s).limit(most)
    chosen = session.scalars(query.with_for_update(skip_locked=True)).all()
    for start in range(0, len(chosen), _A_STATEMENT):
        session.execute(delete(table).where(table.number.in_(chosen[start : start + _A_STATEMENT])))
    return len(chosen)


def _all(database: Database, some: Callable[[Session, int], int]) -> int:
    """Call ``some`` with a number of rows in one transaction after another, each about as long as ``TRANSACTION_S``."""
    total, most = 0, _FIRST
    while True:
        began_s = time.monotonic()
        with database.write() as session:
            number = some(session, most)
        if not number:
            return total
        total += number
        took_s = max(time.monotonic() - began_s, 1e-3)
        most = int(min(_MOST, max(_FIRST, most * min(2.0, TRANSACTION_S / took_s))))
        if database.url.drivername == "sqlite":
            time.sleep(_PAUSE_S)

"""Verifications of stored plans: the counts are the caller's, and the server holds them against its own price."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.session import Database
from app.storage.tables import PlanVerification
from app.studies import service as studies
from app.studies.stored_plan import stored_plan
from app.verification.process import read_counts, refuse_failures
from app.verification.schemas import KeptVerification, VerificationDocument
from app.verification.service import verified


def verify_counts(database: Database, study_id: str, plan_id: str, counts: dict[str, Any]) -> VerificationDocument:
    """Counts beside the price of a stored plan; ``InputError`` for counts of another one."""
    plan = stored_plan(database, study_id, plan_id)
    found = read_counts(json.dumps(counts), "body")
    refuse_failures(found)
    return verified(plan.workload, plan.strategy, plan.job, lambda _question: found)


def keep(session: Session, study_id: str, plan_id: str, document: dict[str, Any]) -> KeptVerification:
    """Store the verification of a plan in place of an earlier one."""
    studies.get_plan(session, study_id, plan_id)  # it may have gone meanwhile
    row = session.get(PlanVerification, (study_id, plan_id)) or PlanVerification(study_id=study_id, plan_id=plan_id)
    row.created_at_s, row.document = now_s(session), document
    session.add(row)
    session.flush()
    return _view(plan_id, row.created_at_s, row.document)


def find(session: Session, study_id: str, plan_id: str) -> KeptVerification:
    """The verification of a plan, or nulls; ``StudyNotFound`` or ``PlanNotFound``."""
    studies.get_plan(session, study_id, plan_id)
    row = session.get(PlanVerification, (study_id, plan_id))
    return _view(plan_id, None, None) if row is None else _view(plan_id, row.created_at_s, row.document)


def _view(plan_id: str, created_at_s: float | None, document: dict[str, Any] | None) -> KeptVerification:
    return KeptVerification.model_validate(
        {"schema_version": 1, "plan_id": plan_id, "created_at_s": created_at_s, "verification": document}
    )

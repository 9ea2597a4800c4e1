"""``/v1/audit``: actions of keys."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.audit.schemas import AuditEntry
from app.http import audit
from app.http.bodies import StrictRoute
from app.http.paging import Limit, Listing, Position, Wanted, listing
from app.http.problems import described
from app.http.security import Admin
from app.http.state import state_of
from app.storage.tables import AuditRecord

router = APIRouter(prefix="/audit", tags=["audit"], route_class=StrictRoute)


def entry(record: AuditRecord) -> AuditEntry:
    return AuditEntry.model_validate({name: getattr(record, name) for name in AuditEntry.model_fields})


@router.get("", responses=described("invalid-input"))
def list_audit(
    request: Request,
    admin: Admin,
    after: Position,
    limit: Limit = 50,
    owner: Wanted = None,
) -> Listing[AuditEntry]:
    """Changes by keys and requests that were refused to keys, newest first. The caller's key needs the scope `admin`."""
    with state_of(request).database.read() as session:
        return listing(audit.list_records(session, owner, after, limit + 1), limit, entry)

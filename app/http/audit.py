"""The log of actions by keys: written before the answer to a change is sent, read by admins, kept for a while."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.security import LOCAL, Principal, address_of, is_reading
from app.http.state import state_of
from app.storage.clock import now_s
from app.storage.database_errors import cause
from app.storage.tables import ApiKey, AuditRecord
from documents.late_methods import dataclass
from documents.sentences import Sentence

MAX_ACTION = 500  # characters
_REFUSED = (403, 429)  # statuses of refused requests; of reading requests, only these are logged

log = structlog.get_logger("meshplan.audit")


@dataclass(frozen=True)
class Act:
    """An action of a key. ``action``: method and path, or the command line; ``status``: HTTP status of the answer."""

    action: str
    owner: str | None
    key_id: str | None
    key_name: str | None
    status: int | None = None
    address: str | None = None
    request_id: str | None = None


def of_key(key: ApiKey, action: str) -> Act:
    """An action on a key, on this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user id in a container without user names
        user = "unknown"
    return Act(action, key.owner, key.id, key.name, address=Sentence("command line of {}", user))


def record(session: Session, act: Act) -> None:
    columns = {**vars(act), "action": act.action[:MAX_ACTION]}
    session.add(AuditRecord(at_s=now_s(session), **columns))
    session.flush()


def list_records(session: Session, owner: str | None, after: int | None, limit: int) -> Sequence[AuditRecord]:
    """Newest first."""
    query = select(AuditRecord).order_by(AuditRecord.number.desc()).limit(limit)
    if owner is not None:
        query = query.where(AuditRecord.owner == owner)
    return session.scalars(query if after is None else query.where(AuditRecord.number < after)).all()


def forget(before_s: float, session: Session, most: int) -> int:
    """Delete up to ``most`` of the older records; return their number, 0 if none is left."""
    old = select(AuditRecord.number).where(AuditRecord.at_s < before_s).order_by(AuditRecord.at_s).limit(most)
    found: Any = session.execute(delete(AuditRecord).where(AuditRecord.number.in_(old.scalar_subquery())))
    return int(found.rowcount)


class Audit:
    """ASGI middleware. Changes by a key, and refusals, are logged before they are answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                holder = scope.get("holder")
                is_change = not is_reading(scope["method"], scope["path"])
                if holder not in (None, LOCAL) and (is_change or message["status"] in _REFUSED):
                    made = Headers(raw=message["headers"]).get("location")
                    await run_in_threadpool(_note, Request(scope), holder, message["status"], made)
            await send(message)

        await self.app(scope, receive, send if scope["type"] != "http" else send_noted)


def _note(request: Request, holder: Principal, status: int, made: str | None) -> None:
    action = Sentence("{} {}{}", request.method, request.url.path, Sentence(": {}", made) if made else "")
    act = Act(action, holder.owner, holder.id, holder.name, status, address_of(request), request.scope.get("request_id"))
    if status == 429 and state_of(request).rates.take(("noted", holder.id), 1) > 0:
        return  # one record a minute: a caller refused for too many requests must not fill the log
    try:
        with state_of(request).database.write() as session:
            record(session, act)
    except SQLAlchemyError as error:  # the change is already done; the log on this machine's disk has it
        log.warning("not in the audit log", **vars(act), reason=cause(error))

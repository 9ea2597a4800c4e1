"""Idempotency-Key: a request that is sent twice is executed once and gets the same answer both times."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Header, Response
from pydantic_core import to_json
from sqlalchemy.orm import Session

from app.http.problems import ServiceError
from app.http.state import ServerState
from app.storage.tables import IdempotencyRecord
from app.studies import repository
from documents.hashing import canonical_json, sha256_of
from documents.said import written
from documents.sentences import Sentence

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="repeat it when repeating the request: it is then carried out once",
    ),
]


def body_digest(body: Mapping[str, Any]) -> str:
    return sha256_of(canonical_json(body, allow_nan=True))  # hash of the unchecked body


@contextmanager
def alone(state: ServerState, owner: str, key: str | None) -> Iterator[None]:
    """Refuse a second request with the same key while the first runs in this process."""
    if key is None:
        yield
        return
    with state.in_flight_lock:
        if (owner, key) in state.in_flight:
            raise in_progress()
        state.in_flight.add((owner, key))
    try:
        yield
    finally:
        with state.in_flight_lock:
            state.in_flight.discard((owner, key))


def in_progress() -> ServiceError:
    return ServiceError(
        "request-in-progress",
        Sentence("Another request with this Idempotency-Key is being carried out."),
        parameter="Idempotency-Key",
        headers={"Retry-After": "1"},
    )


def replayed(session: Session, owner: str, key: str, digest: str) -> Response | None:
    """The first answer with this key, if any; ``ServiceError`` if it answered another body or other parameters."""
    record = repository.find_idempotent(session, owner, key)
    if record is None:
        return None
    if record.body_sha256 != digest:
        raise ServiceError(
            "key-reused",
            Sentence("This Idempotency-Key came with another body or other parameters before."),
            parameter="Idempotency-Key",
        )
    headers = {**record.headers, "Idempotency-Replayed": "true"}
    return Response(to_json(written(record.body)), record.status_code, headers, "application/json")


def remember(
    session: Session,
    owner: str,
    key: str,
    digest: str,
    made_id: str,
    location: str,
    body: dict[str, Any],
    *,
    status_code: int = 202,
) -> None:
    """Store the answer in the transaction that creates its rows."""
    record = IdempotencyRecord(
        owner=owner,
        key=key,
        body_sha256=digest,
        status_code=status_code,
        headers={"Location": location},
        body=body,
        study_id=made_id,
        created_at_s=time.time(),
    )
    repository.add_idempotent(session, record)

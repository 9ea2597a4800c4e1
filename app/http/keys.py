"""API keys: 256 random bits that are shown once; the database holds their SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import time
from secrets import token_urlsafe
from typing import Literal, get_args
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.storage.tables import ApiKey
from documents.errors import InputError, show

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
SECONDS_PER_DAY = 86_400
MAX_DAYS = 3650
_SHOWN = 8  # characters of a key by which its owner knows it again
_USE_NOTED_EVERY_S = 60.0


def create_key(session: Session, name: str, scopes: tuple[Scope, ...], days: int | None) -> tuple[ApiKey, str]:
    """The stored key and its secret, which nobody can ask for again."""
    if session.scalar(select(ApiKey).where(ApiKey.name == name, ApiKey.revoked_at_s.is_(None))):
        raise InputError(f"NAME: {show(name)} has a key already; revoke it first, or take another name.")
    secret = f"mp_{token_urlsafe(32)}"
    now_s = time.time()
    key = ApiKey(
        id=uuid4().hex,
        name=name,
        prefix=secret[:_SHOWN],
        secret_sha256=_digest(secret),
        scopes=list(scopes),
        created_at_s=now_s,
        expires_at_s=None if days is None else now_s + days * SECONDS_PER_DAY,
    )
    session.add(key)
    session.flush()
    return key, secret


def list_keys(session: Session) -> list[ApiKey]:
    return list(session.scalars(select(ApiKey).order_by(ApiKey.created_at_s)))


def revoke_key(session: Session, name: str) -> ApiKey:
    """The key of that name, or whose prefix it is, from now on refused."""
    found = list(session.scalars(select(ApiKey).where(ApiKey.revoked_at_s.is_(None))))
    chosen = [key for key in found if name in (key.name, key.prefix)]
    if len(chosen) != 1:
        known = ", ".join(key.name for key in found) or "none"
        raise InputError(f"NAME: {show(name)} names {len(chosen)} keys that are in force; those in force: {known}.")
    chosen[0].revoked_at_s = time.time()
    return chosen[0]


def authenticated(session: Session, secret: str) -> ApiKey | None:
    """The key in force whose secret this is."""
    digest = _digest(secret)
    key = session.scalar(select(ApiKey).where(ApiKey.secret_sha256 == digest))
    if key is None or not hmac.compare_digest(key.secret_sha256, digest):
        return None
    now_s = time.time()
    expired = key.expires_at_s is not None and key.expires_at_s <= now_s
    return None if expired or key.revoked_at_s is not None else key


def needs_note(key: ApiKey) -> bool:
    """Whether the key's last use is worth writing down again."""
    return key.last_used_at_s is None or time.time() - key.last_used_at_s > _USE_NOTED_EVERY_S


def note_use(session: Session, key_id: str) -> None:
    key = session.get(ApiKey, key_id)
    if key is not None:
        key.last_used_at_s = time.time()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""API keys: 256 random bits that are shown once; the database has their SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Collection, Sequence
from secrets import token_urlsafe
from typing import Literal, get_args
from uuid import uuid4

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.storage.tables import ApiKey
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

Scope = Literal["read", "write", "metrics", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
USUAL_SCOPES: tuple[Scope, ...] = ("read", "write")
SECONDS_PER_DAY = 86_400
SECONDS_PER_HOUR = 3600
MAX_DAYS = 3650
MAX_OVERLAP_HOURS = 30 * 24
MAX_REQUESTS_A_MINUTE = 1_000_000
MAX_STUDIES = 1_000_000
_SHOWN = 8  # first characters of a key, by which its owner recognises it
_USE_NOTED_EVERY_S = 60.0


@dataclass(frozen=True)
class KeyLimits:
    """Limits of a key. ``max_unfinished``: studies of its owner that wait or run; ``max_stored``: all of them."""

    requests_a_minute: int = 30_000
    max_unfinished: int = 1000
    max_stored: int = 10_000


OwnLimits = dict[str, int | None]  # limits by the fields above; None or a missing field means the server's default


def create_key(
    session: Session,
    name: str,
    scopes: tuple[Scope, ...],
    days: int | None,
    *,
    owner: str | None = None,
    limits: OwnLimits | None = None,
) -> tuple[ApiKey, str]:
    """Create a key; return it and its secret, which cannot be read again. Without ``owner``, its name is the owner."""
    if session.scalar(select(ApiKey).where(ApiKey.name == name, ApiKey.revoked_at_s.is_(None))):
        raise InputError(Sentence("NAME: {} has a key already; revoke or rotate it, or take another name.", show(name)))
    secret, now_s = _new_secret(), time.time()
    key = ApiKey(
        id=uuid4().hex,
        name=name,
        owner=owner or name,
        prefix=secret[:_SHOWN],
        secret_sha256=digest_of(secret),
        scopes=list(scopes),
        created_at_s=now_s,
        expires_at_s=None if days is None else now_s + days * SECONDS_PER_DAY,
        **(limits or {}),
    )
    session.add(key)
    session.flush()
    return key, secret


def list_keys(session: Session) -> list[ApiKey]:
    return list(session.scalars(select(ApiKey).order_by(ApiKey.created_at_s)))


def revoke_key(session: Session, name: str) -> ApiKey:
    """Revoke the key with that name or prefix."""
    key = _in_force(session, name)
    key.revoked_at_s = time.time()
    key.previous_sha256 = key.previous_until_s = None
    return key


def rotate_key(session: Session, name: str, overlap_hours: float, days: int | None) -> tuple[ApiKey, str]:
    """The key with a new secret, which lasts as long as the one before did, or ``days``.

    The one before is taken for ``overlap_hours`` more, so that callers can change over; one of an earlier rotation no longer.
    """
    key, now_s = _in_force(session, name), time.time()
    lifetime_s = None if days is None else float(days * SECONDS_PER_DAY)
    if days is None and key.expires_at_s is not None:
        lifetime_s = key.expires_at_s - (key.rotated_at_s or key.created_at_s)
    until_s = now_s + overlap_hours * SECONDS_PER_HOUR
    key.previous_sha256 = key.secret_sha256
    key.previous_until_s = until_s if key.expires_at_s is None else min(until_s, key.expires_at_s)
    secret = _new_secret()
    key.secret_sha256, key.prefix, key.rotated_at_s = digest_of(secret), secret[:_SHOWN], now_s
    key.expires_at_s = None if lifetime_s is None else now_s + lifetime_s
    session.flush()
    return key, secret


def authenticated(session: Session, secret: str) -> ApiKey | None:
    """The valid key with this secret, current or replaced within its overlap."""
    digest, now_s = digest_of(secret), time.time()
    key = session.scalar(select(ApiKey).where(or_(ApiKey.secret_sha256 == digest, ApiKey.previous_sha256 == digest)))
    if key is None or key.revoked_at_s is not None:
        return None
    if hmac.compare_digest(key.secret_sha256, digest):
        ends_s = key.expires_at_s
    else:
        ends_s = key.previous_until_s or 0.0
    return key if ends_s is None or now_s < ends_s else None


def in_force(session: Session, key_ids: Collection[str]) -> set[str]:
    """The keys among ``key_ids`` that are neither revoked nor expired."""
    is_live = or_(ApiKey.expires_at_s.is_(None), ApiKey.expires_at_s > time.time())
    return set(session.scalars(select(ApiKey.id).where(ApiKey.id.in_(key_ids), ApiKey.revoked_at_s.is_(None), is_live)))


def lock_owner(session: Session, owner: str) -> None:
    """Lock the owner's keys until the transaction ends, so that counts stay valid; SQLite has one writer anyway."""
    session.execute(select(ApiKey.id).where(ApiKey.owner == owner).order_by(ApiKey.id).with_for_update())


def needs_note(key: ApiKey) -> bool:
    """Whether the key's time of last use should be updated."""
    return key.last_used_at_s is None or time.time() - key.last_used_at_s > _USE_NOTED_EVERY_S


def note_use(session: Session, key_id: str) -> None:
    key = session.get(ApiKey, key_id)
    if key is not None:
        key.last_used_at_s = time.time()


def granted(scopes: Sequence[str]) -> frozenset[str]:
    """The scopes with those that they imply: an admin may also read and write."""
    return frozenset(SCOPES if "admin" in scopes else scopes)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _new_secret() -> str:
    return f"mp_{token_urlsafe(32)}"


def _in_force(session: Session, name: str) -> ApiKey:
    found = list(session.scalars(select(ApiKey).where(ApiKey.revoked_at_s.is_(None))))
    chosen = [key for key in found if name in (key.name, key.prefix)]
    if len(chosen) != 1:
        known = joined(", ", (key.name for key in found)) or "none"
        raise InputError(
            Sentence("NAME: {} names {} keys that are in force; those in force: {}.", show(name), len(chosen), known)
        )
    return chosen[0]

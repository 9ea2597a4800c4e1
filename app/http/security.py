"""Authentication: on loopback all callers from this machine are allowed, on other addresses holders of API keys."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import replace
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.http import keys
from app.http.addresses import network_of
from app.http.keys import KeyLimits
from app.http.problems import ServiceError
from app.http.state import ServerState, state_of
from documents.errors import show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

LOCAL_CALLER = "local"
_bearer = HTTPBearer(auto_error=False, description="An API key; not needed where the server listens on loopback only.")
METRICS_PATH = "/metrics"
_READING = ("GET", "HEAD")
_READING_PATHS = (
    "/v1/estimates",
    "/v1/explanations",
    "/v1/checks",
    "/v1/goodput",
    "/v1/experts/plans",
    "/v1/sequences/plans",
    "/v1/serving/estimates",
    "/v1/rl/estimates",
    "/v1/rl/searches",
    "/v1/rl/recipes",
    "/v1/sweeps",
    "/v1/models:import",
)  # POST because of the size of the question; nothing is stored


@dataclass(frozen=True)
class Principal:
    """The caller: an API key, or, on loopback, any local user, with all rights and no rows of its own."""

    id: str
    name: str
    owner: str | None
    scopes: frozenset[str]
    limits: KeyLimits

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes


LOCAL = Principal(LOCAL_CALLER, LOCAL_CALLER, None, frozenset(keys.SCOPES), KeyLimits())


def is_loopback(host: str) -> bool:
    name = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _host(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


def _check_local(request: Request) -> None:
    """Refuse calls from web pages that a local user visits: through a host name that resolves here, or through a form."""
    host = request.headers.get("host", "")
    if not is_loopback(_host(host)):
        raise ServiceError(
            "forbidden", Sentence("Without API keys, the server answers to local names only, not to {}.", show(host))
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise ServiceError("forbidden", Sentence("A page of {} may not call this server.", show(origin)))


def authorize(request: Request) -> Principal:
    """The caller of a request, looked up and counted once per request."""
    if "principal" not in request.scope:
        state = state_of(request)
        if state.keys_required:
            principal = _holder(request, state)
        else:
            _check_local(request)
            principal = LOCAL
        request.scope["holder"], request.scope["caller"] = principal, principal.id  # read by the logs, also for refused requests
        if state.keys_required:
            _count(state, principal)
            _check_scope(request, principal)
        request.scope["principal"] = principal
    principal = request.scope["principal"]
    assert isinstance(principal, Principal)
    return principal


async def authorized(request: Request) -> Principal:
    """Like ``authorize``, outside the event loop if a key must be looked up."""
    if "principal" in request.scope or not state_of(request).keys_required:
        return authorize(request)
    return await run_in_threadpool(authorize, request)


def is_reading(method: str, path: str) -> bool:
    """Whether a request only reads."""
    return method in _READING or path in _READING_PATHS


def address_of(request: Request) -> str:
    """Address of a request for rate limits; the first 64 bits of an IPv6 address."""
    return network_of(request.client.host) if request.client else "unknown"


def _holder(request: Request, state: ServerState) -> Principal:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise _unauthorized(Sentence("The request has no API key."))
    secret = secret.strip()
    digest, name = keys.digest_of(secret), ("wrong", address_of(request))
    allowed = state.wrong_keys_a_minute
    # A caller that guesses keys no longer reaches the database; valid keys from the same address still work.
    wait_s = 0.0 if digest in state.known_keys else state.rates.wait_s(name, allowed, at_once=allowed)
    if wait_s > 0.0:
        raise _limited(
            "wrong-keys", state, Sentence("More than {} wrong API keys a minute came from this address.", allowed), wait_s
        )
    with state.database.read() as session:
        key = keys.authenticated(session, secret)
        if key is None:
            state.known_keys.discard(digest)
            state.rates.take(name, allowed, at_once=allowed)
            raise _unauthorized(Sentence("The API key is unknown, expired or revoked."))
        own = {field: getattr(key, field) for field in vars(state.limits)}
        limits = replace(state.limits, **{field: value for field, value in own.items() if value is not None})
        holder = Principal(key.id, key.name, key.owner or key.name, keys.granted(key.scopes), limits)
        is_noteworthy = keys.needs_note(key)
    state.known_keys.add(digest)
    if is_noteworthy:
        with state.database.write() as session:
            keys.note_use(session, holder.id)
    return holder


def _check_scope(request: Request, principal: Principal) -> None:
    needed: keys.Scope = "read" if is_reading(request.method, request.url.path) else "write"
    if request.url.path == METRICS_PATH and "metrics" in principal.scopes:
        return
    require_scope(principal, needed)


def require_scope(principal: Principal, needed: keys.Scope) -> None:
    """``ServiceError`` unless the key has the scope."""
    if needed not in principal.scopes:
        may = joined(" and ", (scope for scope in keys.SCOPES if scope in principal.scopes)) or "nothing"
        raise ServiceError("forbidden", Sentence("The API key may not {}; it may {}.", needed, may))


def _count(state: ServerState, principal: Principal) -> None:
    allowed = principal.limits.requests_a_minute
    wait_s = state.rates.take(("key", principal.id), allowed)
    if wait_s > 0.0:
        raise _limited(
            "requests", state, Sentence("The API key may ask {:,} times a minute and has asked more often.", allowed), wait_s
        )


def _limited(reason: str, state: ServerState, detail: str, wait_s: float) -> ServiceError:
    state.metrics.limited(reason)
    return ServiceError("rate-limited", detail, parameter="Authorization", headers={"Retry-After": str(math.ceil(wait_s))})


def _unauthorized(detail: str) -> ServiceError:
    return ServiceError("unauthorized", detail, parameter="Authorization", headers={"WWW-Authenticate": "Bearer"})


async def require_caller(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Principal:  # the second argument puts the key into the OpenAPI document
    return await authorized(request)


Caller = Annotated[Principal, Depends(require_caller)]


def require_admin(caller: Caller) -> Principal:
    require_scope(caller, "admin")
    return caller


Admin = Annotated[Principal, Depends(require_admin)]

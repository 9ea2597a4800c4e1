"""Who may call: everybody from this machine where the server listens on loopback, else the holders of API keys."""

from __future__ import annotations

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.http import keys
from app.http.problems import ServiceError
from app.http.state import state_of
from app.storage.session import Database
from documents.errors import show

LOCAL_CALLER = "local"
_bearer = HTTPBearer(auto_error=False, description="An API key; not needed where the server listens on loopback only.")
_READING = ("GET", "HEAD")
_READING_PATHS = (
    "/v1/estimates",
    "/v1/explanations",
    "/v1/checks",
    "/v1/goodput",
    "/v1/experts/plan",
    "/v1/sequences/plan",
    "/v1/models:import",
)  # POST for the size of the question; it stores nothing


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
    """Keeps web pages that a local user visits from calling the server: by a name that resolves here, or by a form."""
    host = request.headers.get("host", "")
    if not is_loopback(_host(host)):
        raise ServiceError("forbidden", f"Without API keys, the server answers to local names only, not to {show(host)}.")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise ServiceError("forbidden", f"A page of {show(origin)} may not call this server.")


def authorize(request: Request) -> str:
    """Whose request this is: ``local``, or an API key's id. Looked up once a request."""
    if "caller" not in request.scope:
        state = state_of(request)
        if state.keys_required:
            request.scope["caller"] = _key_id(request, state.database)
        else:
            _check_local(request)
            request.scope["caller"] = LOCAL_CALLER
    return str(request.scope["caller"])


def _key_id(request: Request, database: Database) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise _unauthorized("The request has no API key.")
    with database.read() as session:
        key = keys.authenticated(session, secret.strip())
        if key is None:
            raise _unauthorized("The API key is unknown, expired or revoked.")
        key_id, scopes, is_noteworthy = key.id, tuple(key.scopes), keys.needs_note(key)
    is_reading = request.method in _READING or request.url.path in _READING_PATHS
    needed: keys.Scope = "read" if is_reading else "write"
    if needed not in scopes:
        raise ServiceError("forbidden", f"The API key may not {needed}; it may {' and '.join(scopes)}.")
    if is_noteworthy:
        with database.write() as session:
            keys.note_use(session, key_id)
    return key_id


def _unauthorized(detail: str) -> ServiceError:
    return ServiceError("unauthorized", detail, parameter="Authorization", headers={"WWW-Authenticate": "Bearer"})


def require_caller(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> str:  # the second argument puts the key into the OpenAPI document
    return authorize(request)


Caller = Annotated[str, Depends(require_caller)]

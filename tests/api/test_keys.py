"""API keys: who holds one may call, within its scope and time."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from app.http import keys
from app.http.security import is_loopback
from app.server.application import create_app
from app.storage.session import Database
from app.storage.tables import ApiKey
from documents.errors import InputError
from tests.databases import KINDS

Refused = Callable[..., dict[str, Any]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def guarded(database: Database) -> Iterator[TestClient]:
    app = create_app(database, keys_required=True)
    with TestClient(app, base_url="https://planner.example", raise_server_exceptions=False) as client:
        yield client


def new_key(
    database: Database, name: str = "tool", scopes: tuple[keys.Scope, ...] = keys.USUAL_SCOPES, days: int | None = None
) -> str:
    with database.write() as session:
        return keys.create_key(session, name, scopes, days)[1]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("path", ["/v1/models", "/v1/studies", "/metrics"])
@pytest.mark.parametrize(
    "headers", [{}, bearer("mp_wrong"), {"Authorization": "Basic bXA6bXA="}, {"Authorization": "Bearer"}, bearer("é")]
)
def test_without_a_valid_key_the_answer_is_401(guarded: TestClient, refused: Refused, path: str, headers: dict[str, str]) -> None:
    encoded = {name: value.encode() for name, value in headers.items()}
    response = guarded.get(path, headers=encoded)
    refused(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_stranger_s_body_is_not_read(guarded: TestClient, refused: Refused) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"model": '
        raise AssertionError("it was read")

    refused(guarded.post("/v1/estimates", content=b"{", headers={"Content-Type": "application/json"}), 401, "unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def test_probes_and_documentation_need_no_key(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_a_key_opens_the_door_from_any_host(guarded: TestClient, database: Database, job: dict[str, Any]) -> None:
    secret = new_key(database)
    assert guarded.get("/v1/models", headers=bearer(secret)).status_code == 200
    assert guarded.post("/v1/studies", json=job, headers=bearer(secret)).status_code == 202
    assert guarded.get("/metrics", headers={"Authorization": f"bearer  {secret}"}).status_code == 200


def test_a_reading_key_reads_and_prices_but_changes_nothing(
    guarded: TestClient, database: Database, refused: Refused, job: dict[str, Any]
) -> None:
    reader = bearer(new_key(database, scopes=("read",)))
    assert guarded.get("/v1/studies", headers=reader).status_code == 200
    assert guarded.post("/v1/estimates", json={**job, "strategy": {"tp": 8}}, headers=reader).status_code == 200
    refused(guarded.post("/v1/studies", json=job, headers=reader), 403, "forbidden")
    refused(guarded.delete("/v1/studies/x", headers=reader), 403, "forbidden")


def test_expired_and_revoked_keys_are_refused(
    guarded: TestClient, database: Database, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiring, lasting = new_key(database, "a", days=1), new_key(database, "b")
    assert guarded.get("/v1/models", headers=bearer(expiring)).status_code == 200
    now_s = time.time()
    monkeypatch.setattr(keys.time, "time", lambda: now_s + keys.SECONDS_PER_DAY + 1)
    refused(guarded.get("/v1/models", headers=bearer(expiring)), 401, "unauthorized")
    assert guarded.get("/v1/models", headers=bearer(lasting)).status_code == 200
    with database.write() as session:
        keys.revoke_key(session, lasting[:8])
    refused(guarded.get("/v1/models", headers=bearer(lasting)), 401, "unauthorized")


def test_the_database_holds_no_secret(database: Database) -> None:
    secret = new_key(database)
    with database.read() as session:
        (key,) = session.scalars(select(ApiKey))
        assert secret not in repr({column.name: getattr(key, column.name) for column in ApiKey.__table__.columns})
        assert secret.startswith(key.prefix)
    assert len(secret) >= 43  # 256 bits in base64


def test_idempotency_keys_belong_to_their_caller(guarded: TestClient, database: Database, job: dict[str, Any]) -> None:
    first, second = bearer(new_key(database, "a")), bearer(new_key(database, "b"))
    same = {"Idempotency-Key": "same"}
    ids = {guarded.post("/v1/studies", json=job, headers={**owner, **same}).json()["id"] for owner in (first, second)}
    assert len(ids) == 2


def test_names_are_unique_among_keys_in_force_and_unknown_ones_refused(database: Database) -> None:
    new_key(database, "tool")
    with pytest.raises(InputError, match="has a key already"):
        new_key(database, "tool")
    with database.write() as session, pytest.raises(InputError, match=r"names 0 keys that are in force; those in force: tool\."):
        keys.revoke_key(session, "other")
    with database.write() as session:
        keys.revoke_key(session, "tool")
    new_key(database, "tool")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.5", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_world(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected

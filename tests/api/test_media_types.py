"""A body is parsed or refused by its media type, and a failure tells the log no more than where it happened."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient

from app.http import keys
from app.logs import configure_logs
from app.server.application import create_app
from app.storage.session import Database
from tests.openapi import openapi

WITH_BODY = [
    (path, method)
    for path, operations in openapi()["paths"].items()
    for method, operation in operations.items()
    if "requestBody" in operation
]
NOT_JSON = [
    "text/x+json",
    "x+json",
    "image/svg+json",
    "+json",
    "application/+json",
    "application/a/b+json",
    "application/x+json+",
    "text/json",
    "application/jsonp",
    "",
    "*/*",
    "application/x y+json",
    "application/json, text/plain",
]


@pytest.mark.parametrize(("path", "method"), WITH_BODY)
def test_every_media_type_is_parsed_or_refused(
    api: TestClient, refused: Callable[..., dict[str, Any]], path: str, method: str
) -> None:
    for kind in NOT_JSON:
        response = api.request(method, path, content=b"{}", headers={"Content-Type": kind} if kind else {})
        refused(response, 415, "not-json")
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json", "application/x.y+json"):
        response = api.request(method, path, content=b"[1]", headers={"Content-Type": kind})
        assert response.status_code in (404, 422), (kind, response.text)
        assert "b'" not in response.text
    twice = [("Content-Type", "application/json"), ("Content-Type", "text/plain")]
    refused(api.request(method, path, content=b"{}", headers=twice), 415, "not-json")


@pytest.fixture(params=["text", "json"])
def logged(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    before, handlers, file = structlog.get_config(), logging.root.handlers[:], io.StringIO()
    with redirect_stderr(file):
        configure_logs(request.param)
        yield file.getvalue
    structlog.configure(**before)
    logging.root.handlers[:] = handlers


def test_an_error_leaves_neither_values_nor_a_part_of_a_key_in_the_log(
    database: Database, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as session:
        secret = keys.create_key(session, "alice", ("read", "write"), None)[1]

    async def broken(*given: Any, **named: Any) -> bytes:
        inside = "a value of a variable"
        raise RuntimeError(f"{len(inside)} Authorization: Bearer {secret} {secret[:20]} \x1b]52;c;aGk=\x07")

    monkeypatch.setattr("app.server.pricing.PricingInThreads.heavy", broken)
    app = create_app(database, keys_required=True)
    with TestClient(app, raise_server_exceptions=False) as client:
        headers = {"Authorization": f"Bearer {secret}"}
        answer = client.post("/v1/goodput", json={"model": "a body of a caller"}, headers=headers)
        assert answer.status_code == 500
        client.get("/v1/%1b]52;c;aGk=%07", headers=headers)
    logging.getLogger("a.library").error("failed with %s", secret, exc_info=ValueError(secret))
    text = logged()
    assert "RuntimeError" in text
    assert "request failed" in text
    assert "ValueError" in text
    assert secret[3:9] not in text
    assert "a value of a variable" not in text
    assert "a body of a caller" not in text
    assert "\x1b" not in text
    assert len(text) < 40_000


def test_a_long_message_is_cut(logged: Callable[[], str]) -> None:
    try:
        raise KeyError("x" * 1_000_000)
    except KeyError:
        structlog.get_logger().exception("failed", body=json.dumps(["y"] * 100_000))
    assert len(logged()) < 60_000

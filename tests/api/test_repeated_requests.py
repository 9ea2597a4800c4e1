"""A key of idempotency belongs to one request: its body and its query parameters; answers belong to their caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient


@pytest.mark.parametrize(
    "other", ["visibility=public", "name=other", "priority=5", "tag=a", "note=x"], ids=lambda text: text.partition("=")[0]
)
def test_other_query_parameters_are_another_request(
    api: TestClient, refused: Callable[..., dict[str, Any]], job: dict[str, Any], other: str
) -> None:
    headers = {"Idempotency-Key": "k"}
    first = api.post("/v1/studies", json=job, headers=headers)
    assert first.status_code == 202
    refused(api.post(f"/v1/studies?{other}", json=job, headers=headers), 422, "key-reused")
    again = api.post("/v1/studies?priority=0&name=", json=job, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    named = api.post(f"/v1/studies?{other}", json=job, headers={"Idempotency-Key": "l"})
    assert api.post(f"/v1/studies?{other}", json=job, headers={"Idempotency-Key": "l"}).json()["id"] == named.json()["id"]


def test_no_shared_cache_keeps_an_answer(api: TestClient) -> None:
    for path in ("/v1/terms", "/v1/studies", "/v1/studies/none", "/metrics"):
        answer = api.get(path)
        assert "private" in answer.headers["cache-control"], path
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert api.get("/healthz").headers["cache-control"] == "no-cache"

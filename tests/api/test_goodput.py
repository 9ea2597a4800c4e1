"""``POST /v1/goodput``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.goodput.fields import DeliverySection
from app.goodput.service import goodput_document
from app.jobs.job import parse_job
from app.text.documents import plain

Refused = Callable[..., dict[str, Any]]
SITE = {"mtbf_s": 30_000.0, "histories": 100, "recovery": "pod"}


def test_a_delivery_is_answered_as_the_command_answers(api: TestClient, job: dict[str, Any]) -> None:
    job = {**job, "strategy": {"tp": 8}}
    response = api.post("/v1/goodput", json={**job, "delivery": SITE})
    assert response.status_code == 200
    assert response.json() == plain(goodput_document(parse_job(job), DeliverySection(**SITE)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"strategy": None}, "#/strategy"),
        ({"delivery": {"mtbf_s": 0}}, "#/delivery/mtbf_s"),
        ({"delivery": {"mtb_s": 10}}, "#/delivery/mtb_s"),
        ({"delivery": [1]}, "#/delivery"),
        ({"budget": {}}, "#/budget"),
    ],
)
def test_bad_questions_are_refused(
    api: TestClient, job: dict[str, Any], refused: Refused, change: dict[str, Any], pointer: str
) -> None:
    response = api.post("/v1/goodput", json={**job, "strategy": {"tp": 8}, "delivery": SITE, **change})
    assert refused(response, 422, "invalid-input")["pointer"] == pointer

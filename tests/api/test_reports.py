"""``GET /v1/studies/{id}/report``."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

Refused = Callable[..., dict[str, Any]]
Finish = Callable[[str], None]


def test_a_finished_study_is_a_page_to_save(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = str(api.post("/v1/studies", json=job).json()["id"])
    finish(study)
    page = api.get(f"/v1/studies/{study}/report")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-disposition"] == f'attachment; filename="meshplan-{study}.html"'
    assert page.text.startswith("<!doctype html>")
    plans = api.get(f"/v1/studies/{study}/plans").json()["items"]
    assert page.text.count("<tr><td") > len(plans)
    chinese = api.get(f"/v1/studies/{study}/report", params={"format": "markdown", "language": "zh"})
    assert chinese.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "结论" in chinese.text


def test_the_page_is_titled_by_the_name_of_the_study(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    study = str(api.post("/v1/studies", json=job, params={"name": "Tender A"}).json()["id"])
    finish(study)
    assert "<h1>Tender A</h1>" in api.get(f"/v1/studies/{study}/report").text
    api.patch(f"/v1/studies/{study}", json={"name": ""}).raise_for_status()
    assert "<h1>How to train " in api.get(f"/v1/studies/{study}/report").text


def test_what_has_no_report_says_why(api: TestClient, job: dict[str, Any], refused: Refused) -> None:
    study = str(api.post("/v1/studies", json=job).json()["id"])
    assert "is queued" in refused(api.get(f"/v1/studies/{study}/report"), 409, "conflict")["detail"]
    refused(api.get(f"/v1/studies/{'0' * 16}/report"), 404, "not-found")
    refused(api.get(f"/v1/studies/{study}/report", params={"format": "pdf"}), 422, "invalid-input")

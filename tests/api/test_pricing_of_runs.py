"""Runs and calibrations are priced by turns of owners, and not in the threads that serve everybody."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.calibrations import fit
from app.calibrations.runs import service
from app.server.pricing import PricingInThreads
from calibration.records.training import parse_run_record
from calibration.validation.predictions import validate
from tests.api.run_records import HARDWARE, STACK, usable_records

BODY = {"hardware": HARDWARE, "stack": STACK}


@pytest.fixture
def heavy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is priced heavily, sent as to another process; any other price of a run is an error."""
    begun: list[str] = []
    running: list[str] = []
    original = PricingInThreads.heavy

    async def spy(pricing: PricingInThreads, function: Callable[..., Any], arguments: dict[str, Any], owner: str | None) -> bytes:
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        begun.append(function.__name__)
        running.append(function.__name__)
        try:
            return await original(pricing, function, arguments, owner)
        finally:
            running.pop()

    def inside(priced: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any, **options: Any) -> Any:
            assert running, "priced outside of the pool"
            return priced(*given, **options)

        return checked

    monkeypatch.setattr(PricingInThreads, "heavy", spy)
    monkeypatch.setattr(service, "validate", inside(service.validate))
    monkeypatch.setattr(service, "parse_run_record", inside(service.parse_run_record))
    monkeypatch.setattr(fit, "calibrate_site", inside(fit.calibrate_site))
    return begun


def test_runs_are_predicted_in_the_pool(api: TestClient, heavy: list[str]) -> None:
    assert api.post("/v1/runs", json={"runs": usable_records(2)}).json()["stored"] == 2
    assert heavy == ["predicted_runs"]
    assert len(api.get("/v1/runs?predicted=true").json()["items"]) == 2
    assert heavy == ["predicted_runs", "predicted_page"]


def test_a_list_without_predictions_prices_nothing(api: TestClient, heavy: list[str]) -> None:
    api.post("/v1/runs", json={"runs": usable_records(1)})
    heavy.clear()
    assert len(api.get("/v1/runs").json()["items"]) == 1
    assert heavy == []


def test_calibrations_are_fitted_in_the_pool(api: TestClient, heavy: list[str]) -> None:
    api.post("/v1/runs", json={"runs": usable_records(4)})
    heavy.clear()
    answer = api.post("/v1/calibrations", json=BODY)
    assert answer.status_code == 201, answer.text
    assert heavy == ["fit_of_stored"]
    shown = api.get("/v1/runs", params={"predicted": True, "calibration": answer.json()["id"]}).json()["items"]
    shipped = api.get("/v1/runs?predicted=true").json()["items"]
    for own, other in zip(shown, shipped, strict=True):
        assert own["prediction"]["predicted_step_time_s"] != other["prediction"]["predicted_step_time_s"]


def test_the_place_of_the_fit_is_free_after_one_that_failed(api: TestClient) -> None:
    assert [api.post("/v1/calibrations", json=BODY).status_code for _ in range(2)] == [422, 422]


def test_reasons_and_warnings_are_in_the_language_of_each_request(api: TestClient) -> None:
    chinese = {"Accept-Language": "zh"}
    given = {"runs": [7, *usable_records(4)]}
    refused = {
        name: api.post("/v1/runs", json=given, headers=head).json()["items"][0]["refused"]
        for name, head in {"en": {}, "zh": chinese}.items()
    }
    assert refused["en"] == "The record is 7; a JSON object is needed."
    assert refused["zh"] != refused["en"]
    assert "7" in refused["zh"]
    made = api.post("/v1/calibrations", json=BODY, headers=chinese)
    kept = api.get(made.headers["Location"])
    assert made.json() == api.get(made.headers["Location"], headers=chinese).json()
    (english, *_), (said, *_) = kept.json()["warnings"], made.json()["warnings"]
    assert english.isascii()
    assert not said.isascii()


def test_a_large_number_of_a_record_is_shown_as_it_came(api: TestClient) -> None:
    (record,) = usable_records(1)
    given = {**record, "note": 10**400}
    api.post("/v1/runs", json={"runs": [given]})
    (run,) = api.get("/v1/runs?predicted=true").json()["items"]
    assert run["record"] == given
    (row,) = validate([parse_run_record(record)], service.constants_for, service.interval_of).rows
    assert run["prediction"]["predicted_step_time_s"] == row.predicted_step_time_s

"""``POST /v1/explanations``."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

Refused = Callable[..., dict[str, Any]]


def test_a_slow_plan_is_explained_beside_the_best(api: TestClient, job: dict[str, Any]) -> None:
    document = api.post("/v1/explanations", json={**job, "strategy": {"tp": 8, "recompute": "full"}}).json()
    own_s = document["estimate"]["step_time_s"]
    times = [change["step_time_s"] for change in document["changes"]]
    assert times == sorted(times)
    without = next(change for change in document["changes"] if change["change"].startswith("recompute full -> none"))
    assert without["delta_fraction"] < 0
    assert document["other"]["difference_fraction"] == pytest.approx(document["other"]["step_time_s"] / own_s - 1)
    assert document["other"]["difference_fraction"] < 0
    assert "loses" in document["other"]["why"]
    assert document["would_fit"] is None
    assert document["proved_best"]


def test_the_gains_of_changes_are_simulated_like_the_step(api: TestClient, job: dict[str, Any]) -> None:
    """Layers of 10, 8, 8 and 6 on two ranks of two chunks: the closed form is not the simulated time here."""
    strategy = {"tp": 2, "pp": 2, "vpp": 2, "layer_layout": [[10, 8], [8, 6]]}
    document = api.post("/v1/explanations", json={**job, "strategy": strategy}).json()
    estimate = document["estimate"]
    assert estimate["fidelity"] == "simulated"
    closed = api.post("/v1/estimates", json={**job, "strategy": strategy}).json()["estimate"]
    assert closed["fidelity"] == "closed_form"
    assert abs(closed["step_time_s"] / estimate["step_time_s"] - 1) > 1e-3
    for change in document["changes"]:
        assert change["delta_fraction"] == pytest.approx(change["step_time_s"] / estimate["step_time_s"] - 1, abs=1e-9)
    for entry in document["sensitivity"]:
        assert entry["better_delta_fraction"] == pytest.approx(
            entry["better_step_time_s"] / estimate["step_time_s"] - 1, abs=1e-9
        )
    changed = next(
        change for change in document["changes"] if change["change"].startswith("a layer moved from virtual stage 1 to 2")
    )
    moved = {**strategy, "layer_layout": [[9, 9], [8, 6]]}
    again = api.post("/v1/explanations", json={**job, "strategy": moved}).json()["estimate"]
    assert changed["step_time_s"] == pytest.approx(again["step_time_s"], rel=1e-9)


def test_without_a_strategy_the_best_plan_is_explained(api: TestClient, job: dict[str, Any]) -> None:
    document = api.post("/v1/explanations", json=job).json()
    other = document["other"]
    assert other is None or other["step_time_s"] >= document["estimate"]["step_time_s"]


def test_a_plan_that_does_not_fit_is_told_what_would_do(api: TestClient, job: dict[str, Any]) -> None:
    bigger = {**job, "model": "llama-2-13b", "search": {"min_headroom": "20GiB"}}
    document = api.post("/v1/explanations", json={**bigger, "strategy": {"tp": 4}}).json()
    assert not document["estimate"]["fits"]
    assert document["would_fit"].startswith("It would fit with ")


def test_a_strategy_that_cannot_run_is_refused(api: TestClient, job: dict[str, Any], refused: Refused) -> None:
    refused(api.post("/v1/explanations", json={**job, "strategy": {"tp": 3}}), 422, "invalid-input")
    refused(api.post("/v1/explanations", json={**job, "stratgy": {}}), 422, "invalid-input")


def test_a_job_without_a_plan_is_told_what_stands_in_the_way(api: TestClient, job: dict[str, Any], refused: Refused) -> None:
    too_few = {**job, "model": "llama-2-70b", "cluster": {**job["cluster"], "num_devices": 1}}
    assert "8 devices" in refused(api.post("/v1/explanations", json=too_few), 422, "infeasible")["detail"]

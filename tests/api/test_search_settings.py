"""What a job asks of a search beside its limits: names that it allows and forbids, memory that stays free, balance of routers."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

Finish, Refused = Callable[[str], None], Callable[..., dict[str, Any]]
SPARSE: dict[str, Any] = {
    "model": "deepseek-v2-lite",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16"},
}


def finished(api: TestClient, finish: Finish, job: dict[str, Any], **search: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A study that has run, and its plans."""
    response = api.post("/v1/studies", json={**job, "search": {**job["search"], **search}})
    assert response.status_code == 202, response.text
    study = response.json()["id"]
    finish(study)
    return api.get(f"/v1/studies/{study}").json(), api.get(f"/v1/studies/{study}/plans").json()["items"]


def test_what_is_forbidden_is_in_no_plan_and_what_is_allowed_is_tried(
    api: TestClient, job: dict[str, Any], finish: Finish
) -> None:
    _, usual = finished(api, finish, job)
    assert all("mc2" in plan["strategy"]["features"] for plan in usual)
    study, plans = finished(api, finish, job, forbid=["mc2", "coc"], allow=["grad_reduce_in_bf16"])
    assert (study["job"]["search"]["forbid"], study["job"]["search"]["allow"]) == (["mc2", "coc"], ["grad_reduce_in_bf16"])
    assert plans
    assert not any({"mc2", "coc"} & {*plan["strategy"]["features"]} for plan in plans)
    assert any("grad_reduce_in_bf16" in plan["strategy"]["features"] for plan in plans)


def test_a_name_that_changes_nothing_is_a_warning(api: TestClient, job: dict[str, Any]) -> None:
    study = api.post("/v1/studies", json={**job, "search": {**job["search"], "forbid": ["cuda_graph"]}}).json()
    assert any(sentence.startswith("search.forbid: cuda_graph has no effect") for sentence in study["warnings"])


def test_memory_that_stays_free_leaves_fewer_plans_and_lower_limits(api: TestClient, job: dict[str, Any], finish: Finish) -> None:
    _, usual = finished(api, finish, job)
    study, roomy = finished(api, finish, job, min_headroom="50%", fit_confidence=0.99)
    assert (study["job"]["search"]["min_headroom"], study["job"]["search"]["fit_confidence"]) == ("50%", 0.99)
    limit = usual[0]["estimate"]["memory_limit_bytes"]
    assert roomy
    assert all(plan["estimate"]["fit_limit_bytes"] < limit / 2 for plan in roomy)
    assert all(plan["estimate"]["fits_probability"] >= 0.99 for plan in roomy)
    assert any(plan["estimate"]["fit_limit_bytes"] > limit / 2 for plan in usual)


def test_an_estimate_fits_as_surely_as_is_asked(api: TestClient, job: dict[str, Any]) -> None:
    def fits(**search: Any) -> dict[str, Any]:
        body = {**job, "strategy": {"tp": 8}, "search": search}
        estimate: dict[str, Any] = api.post("/v1/estimates", json=body).json()["estimate"]
        return estimate

    usual, peak = fits(), fits()["peak_memory_bytes"]
    assert usual["fits"]
    crowded = fits(min_headroom=usual["memory_limit_bytes"] - 1.001 * peak)
    assert crowded["peak_memory_bytes"] == peak
    assert not crowded["fits"]
    assert crowded["fits_probability"] < 0.9 <= usual["fits_probability"]
    assert fits(min_headroom=usual["memory_limit_bytes"] - 1.001 * peak, fit_confidence=0.5)["fits"] == (
        crowded["fits_probability"] >= 0.5
    )


@pytest.mark.parametrize("balance", ["auxiliary-loss", "loss-free", "forced"])
def test_what_balances_the_router_is_part_of_the_job(api: TestClient, balance: str) -> None:
    job = {**SPARSE, "training": {**SPARSE["training"], "router_balance": balance}, "strategy": {"tp": 1, "ep": 8}}
    document = api.post("/v1/estimates", json=job).json()
    assert document["job"]["training"]["router_balance"] == balance
    assert not any("router_balance" in sentence for sentence in document["assumptions"])


def test_routers_that_balance_worse_take_longer(api: TestClient) -> None:
    def step_s(balance: str) -> float:
        training = {**SPARSE["training"], "router_balance": balance}
        document = api.post("/v1/estimates", json={**SPARSE, "training": training, "strategy": {"tp": 1, "ep": 8}}).json()
        found: float = document["estimate"]["step_time_s"]
        return found

    assert step_s("forced") < step_s("loss-free") < step_s("auxiliary-loss")


@pytest.mark.parametrize(
    ("section", "values", "pointer", "part"),
    [
        ("search", {"allow": ["mc3"]}, "#/search/allow", "mc2"),
        ("search", {"forbid": ["mc3"]}, "#/search/forbid", "mc2"),
        ("search", {"allow": ["mc2"] * 1000}, "#/search/allow", "a list of 1 to 256"),
        ("search", {"min_headroom": "5 %%"}, "#/search/min_headroom", "such as 4GiB"),
        ("search", {"min_headroom": "4GoB"}, "#/search/min_headroom", "such as 4GiB"),
        ("search", {"min_headroom": -1}, "#/search/min_headroom", "-1 is not allowed"),
        ("search", {"min_headroom": 2**60}, "#/search/min_headroom", "is not allowed"),
        ("search", {"min_headroom": "100%"}, "#/search/min_headroom", "give less"),
        ("search", {"fit_confidence": 1}, "#/search/fit_confidence", "0.5 to 0.99"),
        ("training", {"router_balance": "loss_free"}, "#/training/router_balance", "loss-free"),
        ("training", {"router_balance": "forced"}, "#/training/router_balance", "no experts"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_field(
    api: TestClient, refused: Refused, job: dict[str, Any], section: str, values: dict[str, Any], pointer: str, part: str
) -> None:
    body = {**job, section: {**job[section], **values}}
    problem = refused(api.post("/v1/studies", json=body), 422, "invalid-input")
    assert problem["pointer"].startswith(pointer), problem
    assert part in problem["detail"], problem

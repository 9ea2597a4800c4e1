"""``POST /v1/rl/recipes``: the job of a recipe, which the other endpoints take."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.recipes.schemas import RecipeDocument
from tests.unit.app.recipes.recipes import GPU, MINDSPEED, NPU, SHARDED

BODY: dict[str, Any] = {"recipe": SHARDED, "hardware": GPU, "mean_answer": 300}


def test_a_recipe_becomes_a_job_that_is_priced(api: TestClient) -> None:
    response = api.post("/v1/rl/recipes", json=BODY)
    assert response.status_code == 200
    document = RecipeDocument.model_validate(response.json())
    assert (document.framework, document.release, document.ignored) == ("verl", "0.8", [])
    assert document.job["cluster"]["num_devices"] == 16
    assert document.job["strategy"]["cp_algo"] == "ulysses"
    assert any("prompt_tokens = 150" in assumption for assumption in document.assumptions)
    priced = api.post("/v1/rl/estimates", json=document.job)
    assert priced.status_code == 200, priced.json()
    assert priced.json()["strategy"]["cp"] == 2


def test_a_search_gets_a_job_without_layouts(api: TestClient) -> None:
    job = api.post("/v1/rl/recipes", json={**BODY, "recipe": MINDSPEED, "hardware": NPU, "layouts": False}).json()["job"]
    assert "strategy" not in job
    assert "placement" not in job["post_training"]
    assert "tp" not in job["rollout"]


@pytest.mark.parametrize(
    ("change", "status", "part"),
    [
        ({"hardware": "h100"}, 422, "no known hardware profile"),
        ({"mean_answer": 5000}, 422, "above the cap of 1024"),
        ({"recipe": "echo"}, 422, "no command in it starts"),
        (
            {"recipe": SHARDED.replace("nnodes=2", "nnodes=2 actor_rollout_ref.model.lora_rank=8")},
            422,
            "line 15: actor_rollout_ref",
        ),
        ({"recipe": SHARDED.replace("Qwen/Qwen2.5-7B-Instruct", "/etc/model")}, 422, "give --model NAME or --with config.json"),
        ({"assume": {"x": "yes"}}, 422, "assume: "),
        ({"recipes": "x"}, 422, "did you mean"),
    ],
)
def test_a_recipe_that_is_not_read_is_a_problem(api: TestClient, change: dict[str, Any], status: int, part: str) -> None:
    response = api.post("/v1/rl/recipes", json={**BODY, **change})
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert part in response.json()["detail"]


def test_ignored_settings_are_said(api: TestClient) -> None:
    name = "actor_rollout_ref.model.lora_rank"
    recipe = SHARDED.replace("nnodes=2", f"nnodes=2 {name}=8")
    document = api.post("/v1/rl/recipes", json={**BODY, "recipe": recipe, "assume": {name: "ignored"}}).json()
    assert [name in one for one in document["ignored"]] == [True]

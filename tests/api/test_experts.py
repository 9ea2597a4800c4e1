"""``POST /v1/experts/plans``: what ``meshplan experts plan`` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.cli.main import main
from app.experts.schemas import ExpertPlanDocument

COUNTS = Path(__file__).parents[2] / "examples" / "expert-counts" / "deepseek-v2-lite.json"
Refused = Callable[..., dict[str, Any]]


@pytest.fixture
def moe_job() -> dict[str, Any]:
    return {
        "model": "deepseek-v2-lite",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
        "training": {"seq_length": 4096, "global_batch_size": 512},
        "strategy": {"ep": 16, "recompute": "full"},
    }


def test_a_plan_is_answered_as_the_command_answers(
    api: TestClient, moe_job: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = COUNTS.read_text(encoding="utf-8")
    path = tmp_path / "job.json"
    path.write_text(json.dumps(moe_job), encoding="utf-8")
    assert main(["experts", "plan", str(COUNTS), "--job", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for loads in ({"text": text}, {"counts": json.loads(text)["expert_counts"]}):
        response = api.post("/v1/experts/plans", json={**moe_job, "loads": loads})
        assert response.status_code == 200, response.text
        assert response.json() == printed
    ExpertPlanDocument.model_validate(response.json())


def test_a_map_is_where_experts_lie_now(api: TestClient, moe_job: dict[str, Any]) -> None:
    body = {**moe_job, "loads": {"generated": {"steps": 5}}, "terms": {"max_copies": 0}}
    first = api.post("/v1/experts/plans", json=body).json()
    flat = [[expert for rank in layer for expert in rank] for layer in first["placement"]]
    second = api.post("/v1/experts/plans", json={**body, "placement": {"physical_to_logical_map": flat}}).json()
    assert second["load_before"] == first["load_after"] < first["load_before"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({}, "#/loads"),
        ({"loads": {}}, "#/loads"),
        ({"loads": {"generated": {}, "text": "x"}}, "#/loads"),
        ({"loads": {"counts": [[1, 2], [3]]}}, "#/loads/counts"),
        ({"loads": {"counts": [[[-1] * 64] * 26]}}, "#/loads/counts/0/0/0"),
        ({"loads": {"text": "layer,expert,tokens\n0,0,NaN"}}, "#/loads/text"),
        ({"loads": {"generated": {"steps": 0}}}, "#/loads/generated/steps"),
        ({"loads": {"generated": {"steps": 50_000}}}, "#/loads/generated/steps"),
        ({"loads": {"generated": {}}, "terms": {"valid_steps": 0}}, "#/terms/valid_steps"),
        ({"loads": {"generated": {}}, "terms": {"steps_held_back": 49}}, "#/terms/steps_held_back"),
        ({"loads": {"generated": {}}, "placement": {}}, "#/placement"),
        ({"loads": {"generated": {}}, "placement": 3}, "#/placement"),
        ({"loads": {"generated": {}}, "strategy": {"tp": 8}}, "#/strategy/ep"),
        ({"loads": {"generated": {}}, "model": "llama-2-7b"}, "#/strategy"),
        ({"loads": {"generated": {}}, "lodes": 1}, "#/lodes"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_its_place(
    api: TestClient, moe_job: dict[str, Any], refused: Refused, change: dict[str, Any], pointer: str
) -> None:
    problem = refused(api.post("/v1/experts/plans", json={**moe_job, **change}), 422, "invalid-input")
    assert (problem["pointer"] or "").startswith(pointer)

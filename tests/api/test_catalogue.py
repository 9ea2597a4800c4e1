"""``/v1/models`` and ``/v1/hardware``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.catalogue.models import presets as models
from app.catalogue.schemas import HardwareDetails, HardwareSummary, ImportedModel, ModelDetails, ModelSummary
from hardware_profiles import catalogue as hardware

Refused = Callable[..., dict[str, Any]]
CONFIG = json.loads((Path(__file__).parents[1] / "fixtures/huggingface/deepseek-v3.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("path", "names", "summary", "details"),
    [
        ("/v1/models", models.names(), ModelSummary, ModelDetails),
        ("/v1/hardware", hardware.names(), HardwareSummary, HardwareDetails),
    ],
)
def test_lists_and_entries_are_complete_and_as_documented(
    api: TestClient, path: str, names: tuple[str, ...], summary: Any, details: Any
) -> None:
    listing = api.get(path).json()
    assert listing["next_cursor"] is None
    assert [summary.model_validate(item).name for item in listing["items"]] == list(names)
    for name in names:
        response = api.get(f"{path}/{name}")
        assert response.status_code == 200
        details.model_validate(response.json())


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/models/llama-2-7", "Did you mean 'llama-2-7b'?"),
        ("/v1/hardware/atlas-800t", "Did you mean 'atlas-800t-a3'?"),
        ("/v1/hardware/%2Fetc%2Fpasswd", ""),
        ("/v1/models/..%2F..%2Fapp", ""),
    ],
)
def test_an_unknown_name_is_404_with_the_nearest(api: TestClient, refused: Refused, path: str, hint: str) -> None:
    kind = "not-found" if "%2F" not in path else "unknown-path"
    assert hint in refused(api.get(path), 404, kind)["hint"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/llama-2-7b", "/v1/hardware", "/v1/hardware/atlas-800t-a2"])
def test_what_the_client_has_is_not_sent_again(api: TestClient, path: str) -> None:
    tag = api.get(path).headers["etag"]
    assert tag.startswith('"')  # strong
    again = api.get(path, headers={"If-None-Match": f'"other", {tag}'})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["etag"] == tag
    assert api.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_config_becomes_the_model_part_of_a_job(api: TestClient, job: dict[str, Any]) -> None:
    answer = api.post("/v1/models:import?name=ours", json=CONFIG)
    assert answer.status_code == 200
    imported = ImportedModel.model_validate(answer.json())
    preset = api.get("/v1/models/deepseek-v3").json()
    assert imported.model == {**preset["model"], "name": "ours"}
    assert imported.num_parameters.total == preset["num_parameters"]["total"]
    assert api.post("/v1/studies", json={**job, "model": imported.model, "search": {}}).status_code == 202


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "model_type"),
        ({"model_type": "llamma"}, "llama"),
        ({**CONFIG, "hidden_size": 0}, "hidden_size"),
        ({**CONFIG, "num_hidden_layers": 10**12}, "num_hidden_layers"),
    ],
)
def test_a_config_that_describes_no_model_is_refused(
    api: TestClient, refused: Refused, config: dict[str, Any], said: str
) -> None:
    assert said in refused(api.post("/v1/models:import", json=config), 422, "invalid-input")["detail"]

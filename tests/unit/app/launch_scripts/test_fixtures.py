"""Sixty launch scripts, written from facts of published runs and examples, are read to what the same record states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.shape import model_to_mapping
from app.launch_scripts.files import load_script
from frameworks.registry import parse_target
from search.plans.plan import strategy_to_mapping

FOLDER = Path(__file__).resolve().parents[3] / "fixtures/scripts"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def test_there_are_sixty_and_each_is_a_file() -> None:
    assert len(EXPECTED) >= 60
    scripts = {path.name for path in FOLDER.iterdir() if path.suffix in (".sh", ".yaml")}
    assert scripts == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_script_says_what_its_record_says(name: str) -> None:
    expected = EXPECTED[name]
    files = [FOLDER / file for file in expected.get("with", ())]
    read = load_script(FOLDER / name, expected["hardware"], files=files, assume=expected.get("assume", ()))
    job = read.job
    if "target" in expected:
        assert read.framework.name == expected["target"]
    else:
        assert read.framework.name == "mindformers"
    assert parse_target(job.workload.software.target) == read.framework.target
    assert job.workload.cluster.num_devices == expected["num_devices"]
    training = job.workload.training
    assert {field: getattr(training, field) for field in expected["training"]} == expected["training"]
    model = model_to_mapping(job.workload.model)
    assert job.strategy is not None
    strategy = strategy_to_mapping(job.workload, job.strategy)
    _holds(model, expected["model"])
    _holds(strategy, expected["strategy"])


def _holds(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The facts of the record; of a part, those that it states."""
    for field, value in expected.items():
        if isinstance(value, dict):
            _holds(found[field] or {}, value)
        else:
            assert found[field] == value, field


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if "target" in expected])
def test_without_a_target_a_script_is_read_for_a_framework_of_the_hardware(name: str) -> None:
    expected = EXPECTED[name]
    files = [FOLDER / file for file in expected.get("with", ())]
    read = load_script(FOLDER / name, expected["hardware"], files=files, assume=expected.get("assume", ()))
    assert read.framework.name == expected["target"]

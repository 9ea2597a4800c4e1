"""``software`` in a document: a job, its document and the job of that document mean the same software."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.jobs.fields import SoftwareSection
from app.jobs.job import parse_job

NVIDIA, ASCEND = "h100-sxm-80gb", "atlas-800t-a2"
PLAIN = {"target": "torchtitan", "torch_compile": False}
# A value of each field that is not its default, beside the fields that it needs, and the hardware that has it.
GIVEN: dict[str, tuple[dict[str, Any], str]] = {
    "stack": ({"stack": "fsdp"}, NVIDIA),
    "target": ({"target": "torchtitan"}, NVIDIA),
    "execution": ({"execution": "eager", "stack": "mindformers"}, ASCEND),
    "year": ({"year": 2023.5}, NVIDIA),
    "release": ({"release": "r1.5", "stack": "mindformers"}, ASCEND),
    "fp32_parameters": ({"fp32_parameters": True}, ASCEND),
    "portable_attention": ({"portable_attention": True}, NVIDIA),
    "torch_compile": ({"torch_compile": True, "stack": "fsdp"}, NVIDIA),
    "compiled_loss": ({"compiled_loss": True, **PLAIN}, NVIDIA),
    "loss_chunks": ({"loss_chunks": 4, **PLAIN}, NVIDIA),
    "loader_mask": ({"loader_mask": True}, NVIDIA),
    "legacy_layers": ({"legacy_layers": True, "stack": "mindformers"}, ASCEND),
    "fp32_residual": ({"fp32_residual": "layer", "stack": "mindformers"}, ASCEND),
    "time_factor": ({"time_factor": 1.25}, NVIDIA),
    "operators": ({"operators": ["matmul"]}, ASCEND),
    "host": ({"host": []}, ASCEND),
    "calibration": ({"calibration": "/a/calibration.json"}, NVIDIA),
}


def job(hardware: str, software: dict[str, Any]) -> Any:
    return parse_job(
        {"model": "llama-3.1-8b", "cluster": {"hardware": hardware, "num_devices": 64}, "software": software}, folder=Path()
    )


def test_each_field_has_a_value() -> None:
    assert set(GIVEN) == set(SoftwareSection.model_fields)


@pytest.mark.parametrize("field", GIVEN)
def test_a_document_keeps_each_field(field: str) -> None:
    given, hardware = GIVEN[field]
    first = job(hardware, given)
    again = parse_job({name: part for name, part in first.document.items() if name != "assumed"})
    without = job(hardware, {name: value for name, value in given.items() if name != field})
    assert (again.workload.software, again.calibration) == (first.workload.software, first.calibration)
    assert (without.workload.software, without.calibration) != (first.workload.software, first.calibration)
    assert again.document["software"] == first.document["software"]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("loss", [True, False, None])
def test_a_document_says_whether_the_loss_is_compiled(compiled: bool, loss: bool | None) -> None:
    first = job(NVIDIA, {"target": "torchtitan", "torch_compile": compiled, "compiled_loss": loss})
    said = first.document["software"]["compiled_loss"]
    assert said == (compiled if loss is None else loss)
    assert job(NVIDIA, first.document["software"]).workload.software.plain_cross_entropy == (not said)


def test_a_loss_that_is_never_compiled_is_not_said_to_be() -> None:
    assert job(NVIDIA, {"target": "megatron-lm"}).document["software"]["compiled_loss"] is None

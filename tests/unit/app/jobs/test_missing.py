"""All that a job lacks is told at once."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.job import parse_job
from documents.errors import InputError

MODEL = "model: missing; give a preset's name, the path of a config.json, or a mapping."
HARDWARE = "cluster.hardware: missing; give the hardware profile: a name from `hardware list`, or the path of a profile file."
CLUSTER = {"hardware": "atlas-800t-a2", "num_devices": 8}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"cluster": CLUSTER}, MODEL),
        ({}, f"{MODEL} Also missing: cluster.hardware, cluster.num_devices."),
        ({"cluster": "atlas-800t-a2"}, f"{MODEL} Also missing: cluster.num_devices."),
        ({"model": "llama-2-7b", "cluster": {}}, f"{HARDWARE} Also missing: cluster.num_devices."),
        (
            {"model": {"name": "ours", "num_layers": 2, "vocab_size": 32}, "cluster": {"hardware": "atlas-800t-a2"}},
            "cluster.num_devices: missing; give an integer from 1 to 1,000,000. "
            "Also missing: model.hidden_size, model.num_attention_heads.",
        ),
        (
            {"model": {"hidden_size": 64, "num_layers": 2, "vocab_size": 32}, "cluster": {}},
            f"{HARDWARE} Also missing: cluster.num_devices, model.num_attention_heads.",
        ),
        (
            {"model": {"hidden_size": 64}, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 0}},
            "cluster.num_devices: 0 is not allowed; give an integer from 1 to 1,000,000.",
        ),
        (
            {"model": {"name": "ours", "num_layers": 2}, "cluster": CLUSTER},
            "model.hidden_size: missing; give an integer from 1 to 1,000,000. "
            "Also missing: model.num_attention_heads, model.vocab_size.",
        ),
    ],
)
def test_what_a_job_lacks_is_told_at_once(document: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_job(document)
    assert str(refused.value) == told

"""The optimizer of a job: its fields, what they exclude, and what a resolved job repeats."""

from typing import Any

import pytest

from app.jobs.job import parse_job
from cost_models.shapes.optimizers import Optimizer, TpMode
from documents.errors import InputError


def document(model: str = "llama-3.1-8b", **training: Any) -> dict[str, Any]:
    return {
        "model": model,
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64, **training},
    }


@pytest.mark.parametrize(
    ("training", "optimizer"),
    [
        ({}, Optimizer()),
        ({"optimizer": "adam"}, Optimizer()),
        ({"optimizer": "sgd"}, Optimizer("sgd")),
        ({"optimizer": "muon"}, Optimizer("muon", TpMode.BLOCKWISE, 5)),
        (
            {"optimizer": "muon", "muon_tp_mode": "distributed", "muon_num_ns_steps": 7},
            Optimizer("muon", TpMode.DISTRIBUTED, 7),
        ),
    ],
)
def test_a_resolved_job_says_its_optimizer_again(training: dict[str, Any], optimizer: Optimizer) -> None:
    job = parse_job(document(**training))
    assert job.workload.training.optimizer == optimizer
    assert parse_job(job.document).workload == job.workload


def test_a_job_with_the_default_says_nothing_of_it() -> None:
    assert parse_job(document(optimizer="adam")).document == parse_job(document()).document


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        ({"optimizer": "lion"}, "training.optimizer: 'lion' is not allowed"),
        ({"muon_tp_mode": "blockwise"}, "training.muon_tp_mode: adam orthogonalises nothing; it belongs to muon"),
        ({"optimizer": "sgd", "muon_num_ns_steps": 5}, "training.muon_num_ns_steps: sgd orthogonalises nothing"),
        ({"optimizer": "muon", "task": "lora", "adapter": {"rank": 8}}, "training.optimizer: muon of adapters is not priced"),
        ({"optimizer": "muon", "model": "qwen3-next-80b-a3b"}, "training.optimizer: muon of linear attention is not priced"),
        ({"optimizer": "muon", "muon_num_ns_steps": 0}, "training.muon_num_ns_steps"),
    ],
)
def test_what_does_not_go_together_is_refused(training: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(document(**training))
    assert sentence in str(error.value)

"""The optimizer of a job: its fields, what they exclude, and what a resolved job repeats."""

from typing import Any

import pytest

from app.jobs.job import parse_job
from cost_models.shapes.optimizers import Optimizer, StateTypes, TpMode
from documents.errors import InputError
from frameworks.launch import launch_block
from search.space.search_space import search_space


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
        ({"exp_avg_dtype": "fp32"}, Optimizer(state_types=StateTypes())),
        (
            {"optimizer": "adam", "main_params_dtype": "fp16", "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "fp8"},
            Optimizer(state_types=StateTypes("fp16", "bf16", "fp8")),
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
        ({"optimizer": "muon", "model": "nemotron-h-8b"}, "training.optimizer: muon of layers of one block is not priced"),
        ({"optimizer": "muon", "muon_num_ns_steps": 0}, "training.muon_num_ns_steps"),
        ({"exp_avg_dtype": "fp4"}, "training.exp_avg_dtype: 'fp4' is not allowed"),
        ({"main_params_dtype": "bf16"}, "training.main_params_dtype: 'bf16' is not allowed"),
        ({"optimizer": "sgd", "exp_avg_sq_dtype": "fp8"}, "training.exp_avg_sq_dtype: sgd has no such types"),
        ({"exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"}, "training.exp_avg_dtype: both moments in bf16 are"),
        ({"exp_avg_dtype": "fp8", "task": "lora", "adapter": {"rank": 8}}, "types of the states of adapters are not priced"),
    ],
)
def test_what_does_not_go_together_is_refused(training: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(document(**training))
    assert sentence in str(error.value)


def test_a_file_trains_with_the_optimizer_of_the_job_or_is_not_written() -> None:
    job = parse_job({**document(optimizer="muon"), "strategy": {"tp": 2}})
    assert job.strategy is not None
    block = launch_block(job.workload, job.strategy)
    assert block["megatron-lm"]["target"] == "megatron-lm@0.19"  # 0.12 has no Muon
    assert "--optimizer muon" in " ".join(block["megatron-lm"]["arguments"])
    assert block["torchtitan"]["arguments"] is None
    assert "Not the same optimizer: torchtitan trains with adam, not with muon." in block["torchtitan"]["notes"]


def test_states_of_sgd_are_not_shared_unless_the_job_says_so() -> None:
    usual = parse_job({**document(optimizer="sgd"), "strategy": {"tp": 2}})
    assert usual.strategy is not None
    assert usual.strategy.zero_stage == 0
    assert search_space(usual.workload).zero_stage == (0,)
    assert search_space(parse_job(document()).workload).zero_stage == (1,)
    asked = parse_job({**document(optimizer="sgd"), "strategy": {"tp": 2, "zero_stage": 1}})
    assert asked.strategy is not None
    assert asked.strategy.zero_stage == 1

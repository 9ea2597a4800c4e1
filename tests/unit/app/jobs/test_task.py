"""Which fields of a task go together, and what a job takes where they are silent."""

from typing import Any

import pytest

from app.jobs.job import Job, parse_job
from cost_models.shapes.training_task import MEGATRON_MODULES, BasePrecision, Reference, Task
from documents.errors import InputError

LORA = {"task": "lora", "adapter": {"rank": 16}}


def job(model: str = "qwen3-8b", hardware: str = "h100-sxm-80gb", **training: Any) -> Job:
    batch = {"seq_length": 4096, "global_batch_size": 16}
    cluster = {"hardware": hardware, "num_devices": 8}
    return parse_job({"model": model, "cluster": cluster, "training": {**batch, **training}})


def test_lora_adapts_every_linear_layer_beside_weights_in_16_bits() -> None:
    task = job(**LORA).workload.training.task
    assert (task.name, task.base_precision, task.reference) == (Task.LORA, BasePrecision.BF16, None)
    assert task.adapters is not None
    assert (task.adapters.rank, task.adapters.alpha, task.adapters.modules) == (16, 16.0, tuple(MEGATRON_MODULES))


def test_qlora_quantises_and_preference_training_runs_its_reference() -> None:
    found = job(task="qlora", adapter={"rank": 8})
    assert found.workload.training.task.base_precision is BasePrecision.NF4
    assert any("base_precision" in sentence for sentence in found.assumptions)
    assert job(task="dpo").workload.training.task.reference is Reference.MODEL
    assert job(task="dpo", reference="precomputed").workload.training.task.runs_reference is False


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"task": "lora"}, ["training.adapter", "missing", "rank"]),
        ({"task": "sft", "adapter": {"rank": 8}}, ["training.adapter", "sft trains all weights"]),
        ({"adapter": {"rank": 8}}, ["training.adapter", "pretrain trains all weights"]),
        ({"task": "lora", "adapter": {"rank": 0}}, ["training.adapter.rank", "0"]),
        ({"task": "lora", "adapter": {"rank": 8, "target_modules": ["linear_qvk"]}}, ["target_modules", "linear_qkv"]),
        ({"task": "lora", "adapter": {"rank": 8, "target_modules": ["q_proj", "q_proj"]}}, ["q_proj is given twice"]),
        ({"task": "lora", "adapter": {"rank": 8, "target_modules": ["linear_qkv", "q_proj"]}}, ["linear_qkv and q_proj overlap"]),
        ({**LORA, "base_precision": "nf4"}, ["nf4 is of qlora"]),
        ({**LORA, "task": "qlora", "base_precision": "bf16"}, ["give task lora"]),
        ({**LORA, "task": "qlora", "precision": "fp8"}, ["nf4 weights are converted to bf16 or fp16", "fp8"]),
        ({"task": "sft", "base_precision": "fp8"}, ["none is frozen"]),
        ({**LORA, "reference": "model"}, ["lora has no reference model"]),
    ],
)
def test_what_does_not_go_together_is_refused(training: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        job(**training)
    for word in words:
        assert word in str(refused.value)


def test_layers_that_a_model_lacks_get_no_adapters() -> None:
    with pytest.raises(InputError, match=r"has no q_proj"):
        job("deepseek-v3", **{**LORA, "adapter": {"rank": 8, "target_modules": ["q_proj"]}})
    with pytest.raises(InputError, match="linear attention"):
        job("qwen3-next-80b-a3b", **LORA)
    with pytest.raises(InputError, match="adapters of sparse attention are not priced; glm-5 has it"):
        job("glm-5", **LORA)


def test_a_preset_has_no_default_batch_and_no_budget_for_fine_tuning() -> None:
    with pytest.raises(InputError, match="a preset's default is of its pre-training, not of sft"):
        parse_job({"model": "qwen3-8b", "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}, "training": {"task": "sft"}})
    assert job(task="sft").workload.training.train_tokens is None
    assert job(task="sft", train_tokens=1e8).workload.training.train_tokens == 1e8


@pytest.mark.parametrize(
    "training",
    [{}, {"task": "sft"}, LORA, {**LORA, "task": "qlora", "base_precision": "fp8"}, {"task": "dpo", "adapter": {"rank": 4}}],
)
def test_a_resolved_job_reads_as_the_same_job(training: dict[str, Any]) -> None:
    found = job(**training)
    again = parse_job(found.document)
    assert again.workload == found.workload
    assert again.document == found.document


def test_a_former_name_is_read() -> None:
    assert job(task="sft_full").workload.training.task.name is Task.SFT

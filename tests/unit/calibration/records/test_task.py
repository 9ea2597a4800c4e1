"""What a record says that it trained decides its prediction: adapters are not compared with training of all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.training import RunRecord, parse_run_record
from calibration.splits.mechanisms import run_mechanisms
from cost_models.shapes.training_task import PRETRAIN, BasePrecision, Reference, Task

Read = Callable[..., RunRecord]
ADAPTER = {"rank": 16, "target_modules": ["linear_qkv", "linear_proj"]}


@pytest.mark.parametrize("task", ["pretrain", "sft", "sft_full", "SFT", "rl_update", None])
def test_a_task_that_trains_all_weights_is_priced_as_pre_training(read: Read, task: str | None) -> None:
    record = read({"training.task": task})
    assert record.workload.training.task == PRETRAIN
    assert not any("task" in warning for warning in record.warnings)


@pytest.mark.parametrize(("task", "base"), [("lora", BasePrecision.BF16), ("qlora", BasePrecision.NF4)])
def test_adapters_freeze_all_other_weights_and_are_a_mechanism(read: Read, task: str, base: BasePrecision) -> None:
    record = read({"training.task": task, "training.adapter": ADAPTER})
    found = record.workload.training.task
    assert (found.name, found.base_precision, found.is_frozen) == (Task(task), base, True)
    assert found.adapters is not None
    assert (found.adapters.rank, found.adapters.modules) == (16, ("linear_qkv", "linear_proj"))
    assert f"adapters on weights in {base.value}" in run_mechanisms(record)
    assert record.warnings == ()
    assert "adapters on weights in bf16" not in run_mechanisms(read({}))


def test_preference_training_has_a_reference(read: Read) -> None:
    assert read({"training.task": "dpo"}).workload.training.task.reference is Reference.MODEL
    asked = {"training.task": "dpo", "training.reference": "precomputed"}
    assert read(asked).workload.training.task.reference is Reference.PRECOMPUTED


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"task": "lora"}, "lora trains adapters, and the record states no rank"),
        ({"task": "lora", "adapter": {"rank": 8, "target_modules": ["linear_qkv", "q_proj"]}}, "names of Megatron or of"),
        ({"task": "lora", "adapter": {"rank": 8, "target_modules": ["wqkv"]}}, "'wqkv'"),
        ({"task": "qlora", "adapter": ADAPTER, "base_precision": "int3"}, "'int3' is not allowed"),
        ({"task": "dpo", "reference": "human"}, "'human' is not allowed"),
    ],
)
def test_what_is_trained_must_be_known(row: Callable[..., dict[str, Any]], training: dict[str, Any], reason: str) -> None:
    found = parse_run_record(row({f"training.{name}": value for name, value in training.items()}))
    assert reason in getattr(found, "reason", "it was read")


def test_an_unknown_task_and_an_unknown_key_of_an_adapter_are_said(read: Read) -> None:
    (said,) = read({"training.task": "distil"}).warnings
    assert said == "training.task: 'distil' is not known, read as training of all weights."
    (said,) = read({"training.task": "lora", "training.adapter": {**ADAPTER, "dropout": 0.1}}).warnings
    assert said == "training.adapter.dropout is not read."

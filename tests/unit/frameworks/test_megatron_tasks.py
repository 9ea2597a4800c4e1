"""Launch files of Megatron-LM that fine-tune: which release starts what, from which checkpoint, and how a script reads back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import Adapters, Reference, Task, TrainingTask
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.megatron_lm.framework import MEGATRON_LM
from tests.unit.frameworks.legality_cases import FLAT, SFT, trained
from tests.unit.frameworks.started_scripts import started

OLD, NEW = MEGATRON_LM
PLAN = ParallelStrategy(tp=4, dp=16, sequence_parallel=True)
GIVEN = ("DATA_PATH", "TOKENIZER_PATH", "MODEL_PATH", "PROMPT_TYPE", "CHECKPOINT_PATH")


def on_gpus(workload: Workload) -> Workload:
    return replace(workload, cluster=replace(workload.cluster, profile=replace(workload.cluster.profile, family="nvidia")))


def block(strategy: ParallelStrategy = PLAN, workload: Workload = SFT) -> dict[str, Any]:
    return launch_block(on_gpus(workload), strategy)["megatron-lm"]


def script() -> str:
    return NEW.file(NEW.release, NEW.purposes, block(), Start("Plan 1", 64, 8))


def test_the_release_that_fine_tunes_writes_the_file_and_reads_the_same_task() -> None:
    written = block()
    assert (written["target"], written["launchable"]) == ("megatron-lm@0.19", True)
    assert {"--sft", "--no-create-attention-mask-in-dataloader"} <= set(written["arguments"])
    read = NEW.read_job(written["arguments"], 64)
    assert (read.task, read.unread, read.not_understood, read.uneven) == (SFT.training.task, (), (), ("sft",))
    assert replace(read.strategy, features=PLAN.features) == PLAN
    assert OLD.untold(on_gpus(SFT)) == ("Not the same task: Megatron-LM 0.12 is written for pretrain, not sft.",)
    assert OLD.read_job(block(workload=trained(TrainingTask()))["arguments"], 64).task == TrainingTask()


@pytest.mark.parametrize(
    "task", [TrainingTask(Task.QLORA, Adapters(8, 8.0, ("linear_qkv",))), TrainingTask(Task.DPO, reference=Reference.MODEL)]
)
def test_no_release_starts_another_task(task: TrainingTask) -> None:
    assert block(workload=trained(task))["arguments"] is None


def test_a_fine_tune_starts_from_the_model_and_later_resumes(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    given = {name: name.lower() for name in GIVEN} | {"CHECKPOINT_PATH": str(checkpoints), "PROMPT_TYPE": "identity"}
    status, called = started(script(), tmp_path, **given)
    assert status == 0
    assert [word for word in called if word.endswith(".py")] == ["pretrain_gpt.py"]
    after = {name: called[called.index(name) + 1] for name in called if name.startswith("--") and name != called[-1]}
    assert after["--tokenizer-type"] == "SFTTokenizer"  # no other tokenizer knows conversations
    assert (after["--data-path"], after["--tokenizer-model"]) == ("data_path", "tokenizer_path")
    assert (after["--sft-tokenizer-prompt-format"], after["--load"]) == ("identity", "model_path")
    assert {"--finetune", "--no-load-optim", "--no-load-rng"} <= set(called)
    assert called.count("--tokenizer-type") == called.count("--load") == 1
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("100")
    _, called = started(script(), tmp_path, **given)
    assert called[called.index("--load") + 1] == str(checkpoints)
    assert "--finetune" not in called


@pytest.mark.parametrize("missing", GIVEN)
def test_a_fine_tune_refuses_to_start_while_a_setting_is_missing(missing: str, tmp_path: Path) -> None:
    assert started(script(), tmp_path, **{name: "x" for name in GIVEN if name != missing}) == (2, [])


@pytest.mark.parametrize(
    ("plan", "changed", "words"),
    [
        (replace(FLAT, micro_batch_size=2), {"micro_batch_size": 1}, "micro_batch_size 2 is written as 1"),
        (
            replace(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2),
            {"cp_algo": CpAlgo.RING, "ulysses_degree": 1},
            "cp_algo ulysses is written as ring",
        ),
        (replace(FLAT, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION), {"features": DEFAULT_FEATURES}, "flash_attention"),
        (replace(FLAT, features=DEFAULT_FEATURES | Feature.CUDA_GRAPH), {"features": DEFAULT_FEATURES}, "cuda_graph"),
    ],
)
def test_a_plan_that_packed_samples_exclude_is_written_as_the_nearest_one(
    plan: ParallelStrategy, changed: dict[str, Any], words: str
) -> None:
    written = block(plan)
    assert not written["launchable"]
    assert any(words in note for note in written["notes"])
    read, nearest = NEW.read_job(written["arguments"], 64).strategy, replace(plan, **changed)
    fields = ("micro_batch_size", "cp_algo", "ulysses_degree")
    assert [getattr(read, name) for name in fields] == [getattr(nearest, name) for name in fields]
    both = Feature.FLASH_ATTENTION | Feature.CUDA_GRAPH
    assert read.features & both == nearest.features & both
    assert block(plan, trained(TrainingTask()))["launchable"]  # pre-training takes the plan


def test_the_framework_is_said_to_refuse_a_mask_beside_packed_samples() -> None:
    arguments = [word for word in block()["arguments"] if word != "--no-create-attention-mask-in-dataloader"]
    (note,) = NEW.read_job(arguments, 64).not_understood
    assert "sft" in note
    assert "no-create-attention-mask-in-dataloader" in note

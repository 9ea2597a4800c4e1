"""Launch files of MindSpeed-LLM that fine-tune: what starts, from which checkpoint, and how a script reads back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Reference, Task, TrainingTask
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from tests.unit.frameworks.legality_cases import LORA, MIXTURE_JOB, trained
from tests.unit.frameworks.legality_workloads import DENSE_PLAN
from tests.unit.frameworks.started_scripts import started

PLAN = ParallelStrategy(tp=4, dp=16, sequence_parallel=True)
TASKS = {
    "sft": TrainingTask(Task.SFT),
    "lora": TrainingTask(Task.LORA, Adapters(16, 32.0, ("linear_qkv", "linear_proj"))),
    "dpo": TrainingTask(Task.DPO, reference=Reference.MODEL),
}


def block(workload: Workload, strategy: ParallelStrategy = PLAN) -> dict[str, Any]:
    return launch_block(workload, strategy)["mindspeed-llm"]


def script(workload: Workload, strategy: ParallelStrategy = PLAN) -> str:
    start = Start("Plan 1", workload.cluster.num_devices, 8)
    return MINDSPEED_LLM.file(MINDSPEED_LLM.release, MINDSPEED_LLM.purposes, block(workload, strategy), start)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_written_as_its_stage_and_read_as_the_same_task(name: str) -> None:
    workload = trained(TASKS[name])
    written = block(workload)
    assert written["launchable"]
    read = MINDSPEED_LLM.read_job(written["arguments"], workload.cluster.num_devices)
    assert read.task == TASKS[name]
    assert read.unread == ()
    assert replace(read.strategy, features=PLAN.features) == PLAN


def test_a_file_says_that_it_leaves_out_the_lengths_of_samples() -> None:
    told = "The file does not say how long samples are: read it with the same --lengths"
    whole = trained(TASKS["sft"])
    packed = replace(whole, training=replace(whole.training, mean_squared_length_fraction=0.5))
    assert told in script(packed).replace("\n#   ", " ")
    assert told not in script(whole).replace("\n#   ", " ")


def test_the_arguments_of_adapters_are_those_of_the_framework() -> None:
    written = " ".join(block(trained(TASKS["lora"]))["arguments"])
    assert (
        "--stage sft --is-instruction-dataset --lora-r 16 --lora-alpha 32 --lora-target-modules linear_qkv linear_proj" in written
    )
    assert "--stage dpo --is-pairwise-dataset" in " ".join(block(trained(TASKS["dpo"]))["arguments"])
    assert "--stage" not in block(trained(TrainingTask()))["arguments"]


def test_a_fine_tune_starts_from_the_model_and_later_resumes(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    given = {
        "DATA_PATH": "d",
        "TOKENIZER_PATH": "t",
        "MODEL_PATH": "m",
        "PROMPT_TYPE": "qwen3",
        "CHECKPOINT_PATH": str(checkpoints),
    }
    text = script(LORA)
    status, called = started(text, tmp_path, **given)
    assert status == 0
    assert [word for word in called if word.endswith("train_gpt.py")] == ["posttrain_gpt.py"]
    assert called[called.index("--load") + 1] == "m"
    assert {"--finetune", "--no-load-optim", "--no-load-rng"} <= set(called)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("100")
    _, called = started(text, tmp_path, **given)
    assert called[called.index("--load") + 1] == str(checkpoints)
    assert "--finetune" not in called
    assert called[called.index("--prompt-type") + 1] == "qwen3"


@pytest.mark.parametrize("missing", ["DATA_PATH", "MODEL_PATH", "PROMPT_TYPE"])
def test_a_fine_tune_refuses_to_start_while_a_setting_is_missing(missing: str, tmp_path: Path) -> None:
    names = ("DATA_PATH", "TOKENIZER_PATH", "MODEL_PATH", "PROMPT_TYPE", "CHECKPOINT_PATH")
    status, called = started(script(LORA), tmp_path, **{name: "x" for name in names if name != missing})
    assert (status, called) == (2, [])


def test_the_reference_of_preference_training_is_the_model(tmp_path: Path) -> None:
    names = ("DATA_PATH", "TOKENIZER_PATH", "MODEL_PATH", "PROMPT_TYPE", "CHECKPOINT_PATH")
    _, called = started(script(trained(TASKS["dpo"])), tmp_path, **{name: name.lower() for name in names})
    assert called[called.index("--ref-model") + 1] == "model_path"


def test_the_header_converts_the_model_to_the_plans_layout() -> None:
    (note,) = (note for note in block(LORA, DENSE_PLAN)["notes"] if "convert_ckpt_v2.py" in note)
    assert "--target-tensor-parallel-size 4 --target-pipeline-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4" in note


def test_experts_with_adapters_go_by_alltoall_seq() -> None:
    plan = ParallelStrategy(dp=64, ep=8, dispatcher=DENSE_PLAN.dispatcher.__class__.ALLTOALL)
    arguments = block(trained(LORA.training.task, MIXTURE_JOB), plan)["arguments"]
    assert arguments[arguments.index("--moe-token-dispatcher-type") + 1] == "alltoall_seq"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # As MindSpeed-LLM ships it: 8B and 72B, which differ in rank.
        (
            [
                "--stage",
                "sft",
                "--lora-r",
                "16",
                "--lora-alpha",
                "32",
                "--lora-fusion",
                "--lora-target-modules",
                *MEGATRON_MODULES,
            ],
            TrainingTask(Task.LORA, Adapters(16, 32.0, tuple(MEGATRON_MODULES))),
        ),
        (
            ["--stage", "sft", "--lora-target-modules", "linear_proj", "linear_qkv"],  # default rank and alpha
            TrainingTask(Task.LORA, Adapters(16, 32.0, ("linear_qkv", "linear_proj"))),
        ),
        (["--stage", "sft", "--is-instruction-dataset"], TrainingTask(Task.SFT)),
        (["--stage", "dpo", "--is-pairwise-dataset", "--ref-model", "m"], TrainingTask(Task.DPO, reference=Reference.MODEL)),
        ([], TrainingTask()),
    ],
)
def test_a_shipped_script_is_read_as_what_it_trains(arguments: list[str], expected: TrainingTask) -> None:
    base = block(trained(TrainingTask()))["arguments"]
    read = MINDSPEED_LLM.read_job([*base, *arguments], 64)
    assert (read.task, read.unread) == (expected, ())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stage", "sft", "--lora-target-modules", "linear_kv_up_proj"], "adapters of linear_kv_up_proj are not priced"),
        (["--stage", "dpo", "--lora-target-modules", "linear_qkv"], "second model"),
        (["--stage", "ray_ppo"], "another task"),
    ],
)
def test_what_is_trained_otherwise_is_not_understood(arguments: list[str], words: str) -> None:
    base = block(trained(TrainingTask()))["arguments"]
    assert any(words in entry.change for entry in MINDSPEED_LLM.read_job([*base, *arguments], 64).unread)


@pytest.mark.parametrize("task", [*TASKS.values(), TrainingTask(Task.QLORA, Adapters(8, 8.0, ("linear_qkv",)))])
def test_no_file_is_written_for_a_program_that_starts_another_task(task: TrainingTask) -> None:
    workload = trained(task)
    found = launch_block(workload, PLAN)
    takes = {name for name, entry in found.items() if entry["arguments"] is not None}
    on_mindformers = task.name in (Task.SFT, Task.LORA)
    assert takes == ({"mindspeed-llm"} if task.name in TASKS else set()) | ({"mindformers"} if on_mindformers else set())
    refused = any("Not the same task: MindFormers is written for" in note for note in found["mindformers"]["notes"])
    assert refused is not on_mindformers

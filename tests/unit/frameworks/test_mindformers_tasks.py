"""Files of MindFormers that fine-tune: what starts, from which weights, and how a file reads back."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.jobs.job import parse_job
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Workload
from frameworks.document import options_from_document
from frameworks.framework import ReadJob, Start
from frameworks.launch import launch_block
from frameworks.legality import violations
from frameworks.mindformers.framework import MINDFORMERS
from tests.unit.frameworks.legality_cases import DPO, LORA, QWEN, trained
from tests.unit.frameworks.plans import legal_plans, workload
from tests.unit.frameworks.test_mindformers_jobs import QWEN_FILE, TRAINED

# Whose training class joins weights as Hugging Face stores them [mindformers-1.8, models].
CONVERTS = {"qwen3": True, "qwen3_moe": True, "deepseek_v3": False}
PATHS = {"DATA_PATH", "TOKENIZER_PATH", "MODEL_PATH", "CHECKPOINT_PATH"}


def tuned(kind: str) -> Workload:
    model, plans_of = TRAINED[kind]
    return trained(TrainingTask(Task.SFT), replace(workload("mindformers", plans_of), model=model))


def block(kind: str) -> dict[str, Any]:
    return launch_block(tuned(kind), legal_plans("mindformers", TRAINED[kind][1])[0])["mindformers"]


def file_of(kind: str) -> str:
    start = Start("Plan 1", tuned(kind).cluster.num_devices, 8)
    return MINDFORMERS.file(MINDFORMERS.release, MINDFORMERS.purposes, block(kind), start)


def read(document: dict[str, Any]) -> ReadJob:
    return MINDFORMERS.read_job(options_from_document(MINDFORMERS.release, document), None)


def started(text: str, folder: Path) -> tuple[int, str]:
    """The exit status of the header's commands, and what they hand to the launcher."""
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts" / "msrun_launcher.sh").write_text('echo "$1" > called\n')
    (folder / "plan.yaml").write_text(text)
    header = text.partition("\n\n")[0].splitlines()
    (first,) = (at for at, line in enumerate(header) if line.startswith("#   CHECKPOINTS="))
    script = "\n".join(line.removeprefix("#   ") for line in header[first:]).replace("THIS-FILE", "plan.yaml")
    called = folder / "called"
    called.unlink(missing_ok=True)
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, called.read_text().strip() if called.exists() else done.stdout


@pytest.mark.parametrize("kind", TRAINED)
def test_a_fine_tune_is_written_with_its_data_and_read_as_one(kind: str) -> None:
    assert block(kind)["rules"] == []
    document = yaml.safe_load(file_of(kind))
    assert (document["run_mode"], document["load_ckpt_format"], document["auto_trans_ckpt"]) == ("finetune", "safetensors", True)
    loader, job = document["train_dataset"]["data_loader"], read(document)
    assert loader["type"] == "HFDataLoader"
    (handler,) = loader["handler"]
    seq_length = tuned(kind).training.seq_length
    assert (handler["type"], handler["seq_length"], handler["padding"]) == ("AlpacaInstructDataHandler", seq_length, True)
    columns = document["train_dataset"]["input_columns"]
    assert document["parallel"]["dataset_strategy"] == [[job.strategy.dp, 1]] * len(columns)
    assert job.task == TrainingTask(Task.SFT)
    assert (job.unread, job.uneven, job.not_understood) == ((), (), ())


@pytest.mark.parametrize("kind", TRAINED)
def test_weights_of_hugging_face_are_joined_by_the_class_or_by_a_command(kind: str) -> None:
    converts = CONVERTS[kind]
    document = yaml.safe_load(file_of(kind))
    assert document["model"]["model_config"].get("qkv_concat", False) is converts
    commands = [note for note in block(kind)["notes"] if "convert_weight.py" in note]
    assert len(commands) == (0 if converts else 1)
    if commands:
        assert "--num_layers 13 --hidden_size 7168 --ffn_hidden_size 18432 --num_nextn_predict_layers 1" in commands[0]


def test_no_word_of_the_vocabulary_is_taken_for_padding() -> None:
    assert yaml.safe_load(file_of("qwen3"))["model"]["model_config"]["pad_token_id"] == -1


def with_paths(text: str, but: str | None = None) -> str:
    """The file with every path given, except in one line."""
    lines = text.splitlines()
    return "\n".join(line if line == but or line.startswith("#") else line.replace("SET-ME", "given") for line in lines) + "\n"


def test_a_start_refuses_a_missing_path_then_loads_the_model_and_later_resumes(tmp_path: Path) -> None:
    text = file_of("qwen3")
    assert all(f"# {name}: " in text for name in PATHS)
    missing = [line for line in text.splitlines() if "SET-ME" in line and not line.startswith("#")]
    assert len(missing) == len(PATHS)
    for line in missing:
        status, said = started(with_paths(text, but=line), tmp_path)
        assert (status, said.partition(":")[2].strip()) == (1, line.strip())
    assert started(with_paths(text), tmp_path) == (0, "run_mindformer.py --config plan.yaml")
    checkpoints = tmp_path / "given" / "checkpoint" / "rank_0"
    checkpoints.mkdir(parents=True)
    (checkpoints / "meta.json").write_text("{}")
    again = "--load_checkpoint given/checkpoint --resume_training True --auto_trans_ckpt False"
    assert started(with_paths(text), tmp_path) == (0, f"run_mindformer.py --config plan.yaml {again}")


def test_other_tasks_are_not_written() -> None:
    written = launch_block(trained(DPO.training.task, QWEN), legal_plans("mindformers", "dense")[0])["mindformers"]
    assert written["arguments"] is None
    assert any("for pretrain, sft, lora, not dpo" in note for note in written["notes"])


def adapted(*modules: str, kind: str = "qwen3") -> dict[str, Any]:
    """The file of a plan with adapters of rank 8."""
    model, plans_of = TRAINED[kind]
    task = TrainingTask(Task.LORA, Adapters(8, 24.0, modules))
    of = trained(task, replace(workload("mindformers", plans_of), model=model))
    plan = next(plan for plan in legal_plans("mindformers", plans_of) if plan.cp == 1)
    written = launch_block(of, replace(plan, zero_stage=0))["mindformers"]
    assert written["rules"] == []
    start = Start("Plan 1", of.cluster.num_devices, 8)
    document: dict[str, Any] = yaml.safe_load(MINDFORMERS.file(MINDFORMERS.release, MINDFORMERS.purposes, written, start))
    return document


@pytest.mark.parametrize(
    ("kind", "modules"),
    [("qwen3", ("linear_qkv", "linear_fc2")), ("qwen3_moe", ("linear_qkv", "linear_proj")), ("deepseek_v3", ("linear_proj",))],
)
def test_adapters_are_written_with_all_else_frozen_and_read_again(kind: str, modules: tuple[str, ...]) -> None:
    document = adapted(*modules, kind=kind)
    assert document["run_mode"] == "finetune"
    assert document["model"]["model_config"]["pet_config"] == {
        "pet_type": "lora", "lora_rank": 8, "lora_alpha": 24, "lora_dropout": 0.0, "target_modules": "|".join(modules),
        "freeze_include": ["*"], "freeze_exclude": ["*lora*"],
    }  # fmt: skip
    job = read(document)
    assert (job.unread, job.not_understood) == ((), ())
    assert job.task == TrainingTask(Task.LORA, Adapters(8, 24.0, modules))


def test_the_nearest_file_of_a_plan_that_breaks_a_rule_of_adapters_keeps_it() -> None:
    made = trained(LORA.training.task, QWEN)
    ulysses = ParallelStrategy(tp=4, cp=2, dp=8, sequence_parallel=True, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2, zero_stage=1)
    s, sentences = MINDFORMERS.nearest(made, ulysses)
    assert (s.zero_stage, s.cp_algo, s.ulysses_degree) == (0, CpAlgo.KV_ALLGATHER, 1)
    assert any("zero_stage 1 is written as 0" in sentence for sentence in sentences)
    assert any("cp_algo ulysses is written as kv_allgather" in sentence for sentence in sentences)
    broken = {violation.rule for violation in violations(made, s, MINDFORMERS.target)}
    assert not any("adapter" in rule for rule in broken)


def with_adapters(**changes: Any) -> ReadJob:
    """A file with adapters, some of whose keys differ; a key with ``None`` is left out."""
    document = adapted("linear_qkv", "linear_proj")
    section = document["model"]["model_config"]
    for key, value in changes.items():
        place = section if key == "params_dtype" else section["pet_config"]
        place.pop(key)
        if value is not None:
            place[key] = value
    return read(document)


# The block of configs/qwen3/README.md of release 1.8; word_embeddings is no linear layer and gets no adapter.
MANUAL = """
pet_type: lora
lora_rank: 8
lora_alpha: 16
lora_dropout: 0.1
lora_a_init: 'normal'
lora_b_init: 'zeros'
target_modules: '.*word_embeddings|.*linear_qkv|.*linear_proj|.*linear_fc1|.*linear_fc2'
freeze_include: ['*']
freeze_exclude: ['*lora*']
"""


def test_the_adapters_of_the_manual_are_read() -> None:
    document = adapted("linear_qkv")
    model = document["model"]["model_config"]
    model["pet_config"] = yaml.safe_load(MANUAL)
    job = read(document)
    assert job.task.adapters == Adapters(8, 16.0, ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"))
    assert job.unread == ()
    assert any("lora_dropout 0.1 is read as 0" in sentence for sentence in job.not_understood)
    model["params_dtype"] = "float32"  # as in finetune_qwen3.yaml, to which the manual adds the block
    assert [entry.name for entry in read(document).unread] == ["model.model_config.params_dtype"]


def test_adapters_have_the_release_s_defaults() -> None:
    assert with_adapters(lora_rank=None, lora_alpha=None).task.adapters == Adapters(8, 16.0, ("linear_qkv", "linear_proj"))


@pytest.mark.parametrize("kind", TRAINED)
def test_the_remedy_for_adapters_that_are_not_made_is_not_refused_again(kind: str) -> None:
    model, plans_of = TRAINED[kind]
    base = replace(workload("mindformers", plans_of), model=model)
    said = _refused(base, ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"))
    assert bool(said) is (model.moe is not None or model.mla is not None)
    for sentence in said:
        remedy = tuple(re.findall(r"linear_\w+", sentence.partition("target_modules: ")[2]))
        assert remedy
        assert _refused(base, remedy) == []


def _refused(base: Workload, modules: tuple[str, ...]) -> list[str]:
    made = trained(TrainingTask(Task.LORA, Adapters(8, 24.0, modules)), base)
    plan = ParallelStrategy(dp=base.cluster.num_devices)
    return [each.sentence for each in violations(made, plan, MINDFORMERS.target) if each.rule == "mindformers_adapters"]


def test_an_optimizer_that_divides_frozen_weights_has_no_price() -> None:
    document = adapted("linear_qkv", "linear_proj")
    assert read(document).strategy.dp > 1
    document["parallel"]["enable_parallel_optimizer"] = True
    assert [entry.name for entry in read(document).unread] == ["parallel.enable_parallel_optimizer"]
    del document["model"]["model_config"]["pet_config"]
    assert read(document).unread == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pet_type", "slora"),
        ("target_modules", ".*dense"),
        ("target_modules", "(linear_.*)+"),
        ("target_modules", "linear_qkv|output_layer"),
        ("target_modules", None),
        ("freeze_include", None),  # then nothing is frozen
        ("freeze_exclude", ["*lora*", "*norm*"]),
        ("lora_rank", 0),
        ("lora_rank", True),
        ("lora_alpha", "much"),
        ("params_dtype", "float32"),  # frozen weights of four bytes have no price
    ],
)
def test_adapters_without_a_price_are_not_understood(key: str, value: Any) -> None:
    job = with_adapters(**{key: value})
    assert [entry.name.rpartition(".")[2] for entry in job.unread] == [key]
    assert job.task.adapters is None


def test_a_plan_with_adapters_says_what_tensor_parallel_ranks_exchange_beside_its_price() -> None:
    made = trained(LORA.training.task, QWEN)
    plans = legal_plans("mindformers", "dense")
    says = {plan.tp > 1: launch_block(made, plan)["mindformers"]["notes"] for plan in plans}
    assert set(says) == {False, True}
    assert any("exchanges each output twice" in note for note in says[True])
    assert not any("exchanges each output twice" in note for note in says[False])


@pytest.mark.parametrize(
    ("stack", "modules", "warns"),
    [
        ("mindformers", ["linear_proj"], True),
        ("mindformers", ["linear_fc2"], True),
        ("mindformers", ["linear_qkv", "linear_fc1"], False),
        ("mindspeed-llm", ["linear_proj"], False),
    ],
)
def test_every_answer_warns_of_exchanges_beside_the_price(stack: str, modules: list[str], warns: bool) -> None:
    job = parse_job(
        {
            "model": "qwen3-8b",
            "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
            "training": {
                "task": "lora", "adapter": {"rank": 8, "target_modules": modules}, "seq_length": 4096, "global_batch_size": 8
            },
            "software": {"stack": stack},
        }
    )  # fmt: skip
    assert any("twice more than is priced" in warning for warning in job.warnings) is warns


def test_samples_that_would_be_packed_are_not_written() -> None:
    made = tuned("qwen3")
    short = replace(made, training=replace(made.training, mean_squared_length_fraction=0.5))
    written = launch_block(short, legal_plans("mindformers", "dense")[0])["mindformers"]
    assert (written["launchable"], written["arguments"], written["rules"]) == (False, None, [])
    assert any("PackingHandler shifts labels" in note for note in written["notes"])


# The data of configs/qwen3/finetune_qwen3.yaml in release 1.8.
PACKED = {
    "input_columns": ["input_ids", "labels", "loss_mask", "position_ids"],
    "data_loader": {
        "type": "HFDataLoader", "load_func": "load_dataset", "path": "llm-wizard/alpaca-gpt4-data-zh", "split": "train",
        "create_attention_mask": False, "create_compressed_eod_mask": False, "compressed_eod_mask_length": 128,
        "handler": [
            {"type": "take", "n": 2000},
            {"type": "AlpacaInstructDataHandler", "seq_length": 4096, "padding": False, "tokenizer": {"padding_side": "right"}},
            {"type": "PackingHandler", "seq_length": 4096, "pack_strategy": "pack"},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("compressed", [False, True])
def test_packed_samples_have_a_doubtful_price_only_if_attention_is_told_where_they_end(compressed: bool) -> None:
    loader = {**PACKED["data_loader"], "create_compressed_eod_mask": compressed}  # type: ignore[dict-item]
    job = read({**QWEN_FILE, "run_mode": "finetune", "train_dataset": {**PACKED, "data_loader": loader}})
    assert job.task == TrainingTask(Task.SFT)
    assert job.uneven == (("train_dataset.data_loader.create_compressed_eod_mask",) if compressed else ())
    assert job.unread == ()

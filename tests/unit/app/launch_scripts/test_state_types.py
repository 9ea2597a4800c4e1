"""Scripts of Megatron-LM's precision-aware optimizer, and formats that exclude each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.jobs.job import parse_job
from app.launch_scripts.launch import Given
from app.launch_scripts.reading import read_script_job
from cost_models.shapes.optimizers import Optimizer, StateTypes
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import Feature
from documents.errors import InputError
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from hardware_profiles.catalogue import profile as profile_of
from tests.commands import command

ARGUMENTS = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
    "--position-embedding-type rope --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
    "--global-batch-size 64 --bf16 --vocab-size 128256 --tensor-model-parallel-size 2 --attention-dropout 0 --hidden-dropout 0"
)
AWARE = "--use-distributed-optimizer --use-precision-aware-optimizer"


def script(*words: str) -> str:
    return f"torchrun --nproc_per_node 8 pretrain_gpt.py \\\n  {ARGUMENTS} {' '.join(words)}\n"


def estimated(path: Path, *words: str) -> dict[str, Any]:
    path.write_text(script(*words), encoding="utf-8")
    answer = command("estimate", path, "--hardware", "h100-sxm-80gb", "--json")
    assert answer.returncode == 0, answer.stderr
    read: dict[str, Any] = json.loads(answer.stdout)
    return read


def test_each_type_of_a_script_has_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    usual = estimated(path, "--use-distributed-optimizer")
    typed = estimated(path, AWARE, "--main-grads-dtype bf16 --main-params-dtype fp16 --exp-avg-dtype fp8 --exp-avg-sq-dtype bf16")
    training = typed["job"]["training"]
    assert [training[name] for name in ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")] == ["fp16", "fp8", "bf16"]
    before, after = (answer["estimate"]["memory_breakdown_bytes"] for answer in (usual, typed))
    # Weights 2 bytes; gradients 4 and 2; master 4 and 2, moments 8 and 3, over four replicas.
    parameters = before["weights"] / 2
    for name, old, new in (("gradients", 4, 2), ("optimizer_master_weights", 1, 0.5), ("optimizer_moments", 2, 0.75)):
        assert before[name] == pytest.approx(parameters * old, rel=1e-9), name
        assert after[name] == pytest.approx(parameters * new, rel=1e-9), name


@pytest.mark.parametrize(
    ("words", "types", "features"),
    [
        ("", StateTypes(), Feature(0)),
        ("--exp-avg-dtype bf16", StateTypes("fp32", "bf16", "fp32"), Feature(0)),
        ("--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", None, Feature.BF16_MOMENTS),
        ("--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --main-params-dtype fp16", StateTypes("fp16", "bf16", "bf16"), Feature(0)),
        ("--main-grads-dtype bf16", StateTypes(), Feature.GRAD_REDUCE_IN_BF16),
    ],
)
def test_types_are_read(words: str, types: StateTypes | None, features: Feature) -> None:
    profile = profile_of("h100-sxm-80gb")
    given = Given("train.sh")
    read = read_script_job(script(AWARE, words), given, profile, profile.name, target="megatron-lm@0.19")
    strategy = read.job.strategy
    assert strategy is not None
    assert read.job.workload.training.optimizer == Optimizer(state_types=types)
    assert strategy.features & (Feature.BF16_MOMENTS | Feature.GRAD_REDUCE_IN_BF16) == features


@pytest.mark.parametrize("features", [Feature(0), Feature.GRAD_REDUCE_IN_BF16])
@pytest.mark.parametrize("types", [("fp32", "fp32", "fp32"), ("fp16", "fp8", "fp16"), ("fp32", "bf16", "fp8")])
def test_a_written_file_has_the_types_of_its_job(types: tuple[str, ...], features: Feature) -> None:
    names = ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
    job = parse_job(
        {
            "model": "llama-3.1-8b",
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": 64, **dict(zip(names, types, strict=True))},
            "software": {"target": "megatron-lm@0.19"},
        }
    )
    plan = ParallelStrategy(tp=2, dp=4)
    plan = ParallelStrategy(tp=2, dp=4, features=plan.features | features)
    block = launch_block(job.workload, plan)["megatron-lm"]
    _, text = launch_file("megatron-lm", block, Start("Plan 1", 8, 8))
    given = Given("plan", {"MASTER_ADDR": "node", "NODE_RANK": "0"})
    profile = job.workload.cluster.profile
    read = read_script_job(text, given, profile, profile.name)
    assert read.job.workload.training.optimizer == job.workload.training.optimizer
    assert read.job.strategy is not None
    assert read.job.strategy.features & Feature.GRAD_REDUCE_IN_BF16 == features


def test_operands_in_4_and_in_8_bits_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(script("--fp4-format e2m1 --fp8-format hybrid"), encoding="utf-8")
    answer = command("estimate", path, "--hardware", "b200-sxm-180gb")
    assert answer.returncode == 2
    assert "fp4-format and fp8-format exclude each other" in answer.stderr


def test_types_beside_an_optimizer_on_the_host_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(script(AWARE, "--optimizer-cpu-offload --exp-avg-dtype fp8"), encoding="utf-8")
    answer = command("estimate", path, "--hardware", "h100-sxm-80gb")
    assert answer.returncode == 2
    assert "'exp-avg-dtype': beside an optimizer on the host it has no price" in answer.stderr


def test_types_without_the_optimizer_that_has_them_are_said(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(script("--use-distributed-optimizer --exp-avg-dtype fp8"), encoding="utf-8")
    answer = command("estimate", path, "--hardware", "h100-sxm-80gb")
    assert "exp-avg-dtype!=fp32 needs use-precision-aware-optimizer" in answer.stderr


@pytest.mark.parametrize("target", ["megatron-lm@0.12", "megatron-lm@0.19"])
def test_a_written_plan_with_adam_on_the_host_is_read_back(target: str) -> None:
    job = parse_job(
        {
            "model": "llama-3.1-8b",
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "software": {"target": target},
        }
    )
    plan = ParallelStrategy(tp=4, dp=2)
    plan = ParallelStrategy(tp=4, dp=2, features=plan.features | Feature.OPTIMIZER_CPU_OFFLOAD)
    _, text = launch_file("megatron-lm", launch_block(job.workload, plan)["megatron-lm"], Start("Plan 1", 8, 8))
    assert "--use-precision-aware-optimizer" in text
    given = Given("plan", {"MASTER_ADDR": "node", "NODE_RANK": "0"})
    profile = job.workload.cluster.profile
    read = read_script_job(text, given, profile, profile.name, target=target)
    assert not read.not_understood
    assert read.job.workload.training.optimizer == Optimizer()
    assert read.job.strategy is not None
    assert Feature.OPTIMIZER_CPU_OFFLOAD in read.job.strategy.features


def test_a_script_whose_adam_takes_types_is_read_for_the_release_that_prices_them() -> None:
    profile = profile_of("h100-sxm-80gb")
    read = read_script_job(script(AWARE), Given("train.sh"), profile, profile.name)
    assert read.framework.target.label == "megatron-lm@0.19"
    assert read.job.workload.training.optimizer == Optimizer(state_types=StateTypes())
    with pytest.raises(InputError, match="'use-precision-aware-optimizer': it changes the memory"):
        read_script_job(script(AWARE), Given("train.sh"), profile, profile.name, target="megatron-lm@0.12")

"""What is written for a framework is read back at the same price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.rl.job import parse_rl_job
from app.rl.service import rl_document
from tests.unit.app.recipes.recipes import GPU, NPU, read

MEANS = {"mean": 700.0, "sigma": 0.5}
OFF = {"overlap_grad_reduce": False, "overlap_param_gather": False}
STEP = {
    "algorithm": "grpo",
    "prompts": 64,
    "samples": 4,
    "prompt_tokens": 200.0,
    "max_prompt_tokens": 1000,
    "lengths": {**MEANS, "cap": 2048},
    "updates": 4,
}
DENSE = {
    "model": "qwen2.5-7b",
    "cluster": {"hardware": NPU, "num_devices": 32},
    "post_training": STEP,
    "strategy": {"tp": 2, "pp": 2, "cp": 2, "recompute": True, "switches": OFF},
    "rollout": {"tp": 4, "execution": "eager", "memory_fraction": 0.55, "max_requests": 200},
}
SPARSE = {
    **DENSE,
    "model": "qwen3-30b-a3b",
    "strategy": {"tp": 2, "ep": 8, "recompute": True, "micro_batch_size": 2, "switches": OFF},
    "rollout": {"tp": 2, "ep": 8, "execution": "graph", "memory_fraction": 0.7, "max_requests": 96},
}


def changed(job: dict[str, Any], **sections: dict[str, Any]) -> dict[str, Any]:
    """A job with fields of its sections replaced."""
    return {**job, **{name: {**job[name], **fields} for name, fields in sections.items()}}


JOBS = {
    "dense": DENSE,
    "sparse": SPARSE,
    "samples": changed(DENSE, strategy={"batching": "samples", "micro_batch_size": 4}),
    "padded": changed(DENSE, strategy={"batching": "padded", "micro_batch_size": 2}),
    "tokens": changed(DENSE, strategy={"pack_tokens": 8000}),
    "block": changed(DENSE, strategy={"recompute_layers": 3, "vpp": 2, "cp": 1}),
    "stages": changed(DENSE, strategy={"stage_layers": [13, 15]}),
    "no recompute": changed(DENSE, strategy={"recompute": False, "zero_stage": 0, "micro_batch_size": 2}),
    "critic": changed(DENSE, post_training={"algorithm": "ppo", "updates": 2}),
    "filter": changed(DENSE, post_training={"algorithm": "dapo", "kept_fraction": 0.5, "prompts": 32, "offload": False}),
}
# What one of the two has no setting for.
MINDSPEED_ONLY = {
    "swap": changed(SPARSE, strategy={"switches": {**OFF, "swap_optimizer": True, "moe_alltoall_overlap_comm": True}}),
    "ulysses": changed(DENSE, strategy={"cp_algo": "ulysses"}),
    "aside": changed(
        DENSE, cluster={"num_devices": 48}, post_training={"placement": "train-infer-colocated", "train_devices": 32}
    ),
    "queue": changed(DENSE, post_training={"queue": True}),
    "one update": changed(DENSE, post_training={"updates": 1, "old_log_prob": False}),
    "no overlap stated": changed(DENSE, strategy={"switches": {}}),
}
APART = {"placement": "separate", "rollout_devices": 32, "train_devices": 16}
STALE = {**APART, "staleness": {"steps": 1, "partial": True}}
VERL_ONLY = {
    "gpus": {**DENSE, "cluster": {"hardware": GPU, "num_devices": 16}},
    "separate": changed(DENSE, cluster={"num_devices": 48}, post_training=STALE),
    "leftover": changed(
        DENSE, cluster={"num_devices": 48}, post_training={**APART, "staleness": {"leftover_fraction": 0.3, "partial": True}}
    ),
    "synchronous pools": changed(DENSE, cluster={"num_devices": 48}, post_training={**APART, "old_log_prob": False}),
}


def same_price(folder: Path, job: dict[str, Any], framework: str, name: str) -> None:
    """Write a job's file for a framework, read it, and compare each time and the memory."""
    wanted = rl_document(parse_rl_job(job))
    launch = next(one for one in wanted.launches if one.framework == framework)
    assert launch.text is not None, launch.refused
    section = job["post_training"]
    found = read(
        folder,
        launch.text,
        name,
        job["cluster"]["hardware"],
        mean=None,
        model=job["model"],
        mean_prompt=section["prompt_tokens"],
        kept_fraction=section.get("kept_fraction"),
        lengths=MEANS,
        values=["MODEL_PATH=the-model", "TRAIN_FILE=a", "TEST_FILE=b"] if name.endswith(".sh") else [],
    )
    again = rl_document(found.job)
    assert again.parts_s == pytest.approx(wanted.parts_s, rel=1e-9)
    assert again.step_time_s == pytest.approx(wanted.step_time_s, rel=1e-9)
    assert again.training_peak_memory_bytes == pytest.approx(wanted.training_peak_memory_bytes, rel=1e-9)
    assert again.rollout_layout == wanted.rollout_layout
    assert again.strategy == wanted.strategy


@pytest.mark.parametrize("name", [*JOBS, *VERL_ONLY])
def test_verl_reads_what_is_written(tmp_path: Path, name: str) -> None:
    same_price(tmp_path, {**JOBS, **VERL_ONLY}[name], "verl", "run.sh")


@pytest.mark.parametrize("name", [*JOBS, *MINDSPEED_ONLY])
def test_mindspeed_rl_reads_what_is_written(tmp_path: Path, name: str) -> None:
    same_price(tmp_path, {**JOBS, **MINDSPEED_ONLY}[name], "mindspeed-rl", "post-training.yaml")

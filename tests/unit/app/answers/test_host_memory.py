"""Adam on the host in an answer: what it takes there, and the range of its time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from app.answers.assumptions import brief
from app.answers.host_memory import host_sentences
from app.answers.price import estimate_document
from app.calibrations.constants import interval_of
from app.jobs.job import Job, parse_job
from app.text.json_documents import plain
from calibration.records.training import Measured, RunRecord
from cost_models.shapes.canonical import canonical
from cost_models.shapes.switches import Feature
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.registry import BY_LABEL


def job_of(target: str = "megatron-lm@0.19", hardware: str = "h100-sxm-80gb", on_host: bool = True) -> Job:
    switches = {"optimizer_cpu_offload": True} if on_host else {}
    return parse_job(
        {
            "model": "llama-3.1-70b",
            "cluster": {"hardware": hardware, "num_devices": 16},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "software": {"target": target},
            "strategy": {"tp": 8, "recompute": "full", "switches": switches},
        }
    )


@cache
def answer(**asked: Any) -> dict[str, Any]:
    job = job_of(**asked)
    return plain(estimate_document(job, job.strategy))


def ends(document: dict[str, Any]) -> tuple[float, float]:
    step = document["estimate"]
    return tuple(math.log(step[f"step_time_{end}_s"] / step["step_time_s"]) for end in ("low", "high"))  # type: ignore[return-value]


def test_the_interval_takes_adam_from_six_tenths_to_twice_its_time() -> None:
    found = answer()
    optimizer = found["estimate"]["time_breakdown_s"]["optimizer"] / found["estimate"]["step_time_s"]
    assert optimizer > 0.1
    low, high = ends(found)
    assert low < math.log(1.0 - 0.4 * optimizer)
    assert high > math.log(1.0 + optimizer)
    plain_low, plain_high = ends(answer(on_host=False))
    assert low < plain_low < 0.0 < plain_high < high
    assert any("switch optimizer_cpu_offload" in each for each in found["estimate"]["evidence"]["extrapolated"])


def test_an_answer_says_what_the_hosts_give() -> None:
    said = " ".join(answer()["assumptions"])
    # 70,553,706,496 parameters, 16 bytes each, on two nodes
    assert (
        f"{70_553_706_496 * 16 / 2 / 2**30:,.2f} GiB of host memory on each node at their peak; h100-sxm-80gb has 1,862.65 GiB"
        in said
    )
    assert "46 GB/s a rank (0.6 of its share of 76.8 GB/s): the interval takes it 0.6 to 2 times" in said
    other = " ".join(answer(hardware="h20-sxm-96gb")["assumptions"])
    assert "h20-sxm-96gb states none" in other
    assert "31 GB/s a rank (0.6 of its share of 51.2 GB/s, assumed as the profile states none)" in other
    assert "host memory" not in " ".join(answer(on_host=False)["assumptions"])


def test_what_the_hosts_give_is_shown_as_it_is_said() -> None:
    job = job_of()
    said = host_sentences(job.workload, job.strategy)
    assert len(said) == 2
    assert list(map(brief, said)) == said  # they have as many parts as the sentence on a field


def test_a_rank_alone_on_its_host_is_limited_by_its_threads() -> None:
    job = job_of()
    alone = replace(job.workload, cluster=replace(job.workload.cluster, num_devices=1))
    said = " ".join(host_sentences(alone, replace(job.strategy, tp=1, dp=1)))
    # (44 / 26 + 8 / 64) / (44 / 208 + 8 / 64) = 5.4
    assert "208 GB/s a rank (8 threads of 26 GB/s each): the interval takes it 0.6 to 5.4 times" in said


def test_ranks_that_first_copy_whole_weights_take_more_than_their_states() -> None:
    job = parse_job(
        {
            "model": "llama-3.1-8b",
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 64},
            "training": {"seq_length": 4096, "global_batch_size": 64},
            "software": {"target": "megatron-lm@0.19"},
            "strategy": {"dp": 64, "recompute": "full", "switches": {"optimizer_cpu_offload": True}},
        }
    )
    memory, _ = host_sentences(job.workload, job.strategy)
    # 8,030,261,248 parameters, 4 bytes each on each of 8 ranks of a node: 239 GiB; their states are 16 / 8 of them, 15 GiB
    assert f"{8_030_261_248 * 4 * 8 / 2**30:,.2f} GiB of host memory on each node" in memory


def test_a_measured_run_has_the_interval_of_its_estimate() -> None:
    job = job_of()
    step_time_s = answer()["estimate"]["step_time_s"]
    record = RunRecord("run", 1, "dense_multi", job.workload, job.strategy, Measured(step_time_s))
    found = answer()["estimate"]
    assert interval_of(record, step_time_s) == pytest.approx((found["step_time_low_s"], found["step_time_high_s"]), rel=0.005)
    without = replace(record, strategy=job_of(on_host=False).strategy)
    assert interval_of(without, step_time_s)[1] < 0.95 * found["step_time_high_s"]


def test_states_that_visit_the_device_take_host_memory_alone() -> None:
    job = job_of("any")
    swapped = replace(job.strategy, features=job.strategy.features & ~Feature.OPTIMIZER_CPU_OFFLOAD | Feature.SWAP_OPTIMIZER)
    (sentence,) = host_sentences(job.workload, swapped)
    assert f"{70_553_706_496 * 12 / 2 / 2**30:,.2f} GiB" in sentence


@pytest.mark.parametrize("target", ["megatron-lm@0.12", "megatron-lm@0.19"])
def test_a_written_file_has_the_arguments_of_its_release_and_says_the_plan(target: str) -> None:
    job = job_of(target)
    launch = launch_block(job.workload, job.strategy)["megatron-lm"]
    text = launch_file("megatron-lm", launch, Start("Plan 1", 16, 8))[1]
    assert ("--overlap-cpu-optimizer-d2h-h2d" in text) == (target == "megatron-lm@0.19")
    for line in ("--optimizer-cpu-offload", "--use-precision-aware-optimizer", "export OMP_NUM_THREADS=8"):
        assert line in text
    assert canonical(job.workload, BY_LABEL[target].read(launch["arguments"], 16)) == canonical(job.workload, job.strategy)

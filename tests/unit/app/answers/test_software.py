"""What an estimate says of its software's options, held against jobs that have them."""

from __future__ import annotations

from typing import Any

import pytest

from app.answers.parts import PARTS
from app.answers.price import estimate_document
from app.answers.schemas import EstimateDocument
from app.jobs.job import parse_job
from documents.errors import InputError

JOB: dict[str, Any] = {
    "model": "deepseek-v2-lite",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64},
    "training": {"seq_length": 4096, "global_batch_size": 256},
    "strategy": {"tp": 1, "pp": 2, "ep": 8, "micro_batch_size": 1},
}
IN_RUNS = ["task-queue", "cpu-affinity"]


def answer(*, simulated: bool = False, advised: bool = True, **software: Any) -> EstimateDocument:
    job = parse_job({**JOB, "software": software})
    assert job.strategy is not None
    return estimate_document(job, job.strategy, simulated=simulated, replayed=False, explained=PARTS if advised else ())


@pytest.mark.parametrize("simulated", [False, True])
def test_each_option_moves_the_step_as_a_job_with_it_says(simulated: bool) -> None:
    plain = answer(simulated=simulated)
    assert plain.software is not None
    parts = plain.estimate.time_breakdown_s
    host_s = parts["host"] + parts["size_synchronisation"]
    assert plain.software.host_s == pytest.approx(host_s)
    assert plain.software.host_fraction == pytest.approx(host_s / plain.estimate.step_time_s)
    for option in plain.software.options:
        if option.kind == "strategy":
            assert option.other_host_fraction < plain.software.host_fraction
            continue
        names = [option.name] if option.kind == "operators" else [name for name in IN_RUNS if name != option.name]
        if option.kind == "host" and not option.is_on:
            names.append(option.name)
        other = answer(simulated=simulated, advised=False, **{option.kind: names})
        assert option.other_step_time_s == pytest.approx(other.estimate.step_time_s)
        gain = plain.estimate.step_time_s / other.estimate.step_time_s - 1
        assert option.gain_fraction == pytest.approx(1 / (1 + gain) - 1 if option.is_on else gain)
        assert option.gain_fraction >= 0


def test_an_option_changes_its_own_parts_alone() -> None:
    plain, faster = answer().estimate, answer(operators=["flash-attention"]).estimate
    assert faster.time_breakdown_s["attention"] < plain.time_breakdown_s["attention"]
    for part in ("matmul", "vector", "permute", "ep_comm", "gradient_accumulation", "optimizer"):
        assert faster.time_breakdown_s[part] == plain.time_breakdown_s[part]


def test_what_differs_from_the_runs_is_among_the_assumptions() -> None:
    said = "\n".join(answer(operators=["matmul"], host=["task-queue"]).assumptions)
    assert "software.operators matmul: matmul_fraction x 1.1 (vendor, pangu-ultra-moe-2)" in said
    assert "software.host without cpu-affinity: host_kernel_s / 0.84 (measured, vllm-ascend-6966)" in said
    assert "software.host" not in "\n".join(answer(host=IN_RUNS).assumptions)


def test_a_resolved_job_keeps_its_options() -> None:
    document = answer(operators=["vector", "matmul", "vector"], host=[]).job
    assert document["software"]["operators"] == ["matmul", "vector"]
    assert parse_job(document).workload.software.host == ()


@pytest.mark.parametrize(
    ("software", "sentence"),
    [
        ({"operators": ["flash"]}, "software.operators\\[0\\]: 'flash' is not allowed"),
        ({"operators": "matmul"}, "software.operators: 'matmul' is not allowed"),
        (
            {"stack": "mindformers", "host": ["task-queue"]},
            "software.host: task-queue is none of mindformers in a compiled graph",
        ),
    ],
)
def test_an_option_that_there_is_not_is_refused(software: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        answer(**software)

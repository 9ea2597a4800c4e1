"""A plan costs what its launch file says: nothing that is priced is left out when it is written, or lost when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.calibrations.constants import constants_for
from app.catalogue.models.huggingface.reading import model_from_config_file
from app.catalogue.models.presets import model_preset, names
from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import Job, parse_job
from app.launch_scripts.launch import Given
from app.launch_scripts.reading import read_script_job
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import rules_for
from frameworks.registry import BY_LABEL, parse_target
from search.space.enumeration import Rejections, charge_illegal, chunks
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import memory_saving_forms
from search.space.search_space import search_space

MOST_CHUNKS, ROWS_PER_CHUNK = 60, 4


def _legal_rows(workload: Workload, limits: SearchLimits, seed: int) -> list[ParallelStrategy]:
    """Some legal strategies of the target's lattice, with memory-saving forms of them."""
    draw, rejections, found = np.random.default_rng(seed), Rejections(), []
    rules, space = rules_for(workload.software.target), search_space(workload, limits)
    for number, chunk in enumerate(chunks(workload, space, rejections, 4096)):
        if number == MOST_CHUNKS:
            break
        legal = charge_illegal(workload, chunk.batch, rules, rejections)
        forms = memory_saving_forms(workload, legal.take(_some(draw, len(legal))), space.leaner) if len(legal) else None
        lean = legal.take(np.arange(0)) if forms is None else charge_illegal(workload, forms[0], rules, rejections)
        for batch in (legal, lean):
            found += [batch.row(int(row)) for row in _some(draw, len(batch))]
    return found


def _some(draw: np.random.Generator, number: int) -> np.ndarray:
    return draw.choice(number, min(number, ROWS_PER_CHUNK), replace=False)


@pytest.mark.parametrize(
    ("model", "hardware", "num_devices", "target", "limits"),
    [
        ("deepseek-v3", "atlas-800t-a2", 512, "mindspeed-llm", {}),
        ("mixtral-8x7b", "atlas-900-a3-superpod", 64, "mindspeed-llm", {"allow": ["moe_permute_fusion"]}),
        ("qwen3-235b-a22b", "atlas-900-a3-superpod", 256, "mindspeed-llm", {"moe_permute_fusion": [True]}),
        ("gpt3-175b", "atlas-800t-a2", 256, "mindspeed-llm", {}),
        ("deepseek-v3", "h100-sxm-80gb", 512, "megatron-lm@0.12", {}),
        ("deepseek-v3", "h100-sxm-80gb", 512, "megatron-lm@0.19", {}),
        ("deepseek-v3", "atlas-800t-a2", 512, "mindformers", {}),
        ("qwen3-30b-a3b", "atlas-800t-a2", 64, "mindformers", {}),
        ("nemotron-h-8b", "h100-sxm-80gb", 64, "megatron-lm@0.19", {"tp": [1, 2], "cp": [1, 2, 4, 16]}),
        ("llama-3.1-70b", "h100-sxm-80gb", 512, "torchtitan", {}),
        ("qwen3-30b-a3b", "h100-sxm-80gb", 64, "torchtitan", {"pp": [1]}),
        ("llama-3.1-70b", "h100-sxm-80gb", 512, "torchtitan@main", {}),
        ("qwen3-235b-a22b", "atlas-900-a3-superpod", 256, "mindspeed-llm-fsdp2", {"tp": [1], "pp": [1]}),
    ],
)
def test_a_plan_costs_what_its_file_says(
    model: str, hardware: str, num_devices: int, target: str, limits: dict[str, object]
) -> None:
    job = parse_job(
        {
            "model": model,
            "cluster": {"hardware": hardware, "num_devices": num_devices},
            "training": {"seq_length": 8192, "global_batch_size": 1024},
            "software": {"target": target},
            "search": limits,
        }
    )
    workload, framework = job.workload, BY_LABEL[parse_target(target).label]
    planned = _legal_rows(workload, job.limits, num_devices)
    assert len(planned) > 20
    written = [framework.nearest(workload, strategy)[0] for strategy in planned]
    constants = constants_for(workload, [])
    priced, run = (estimate(workload, StrategyBatch.of(batch), constants) for batch in (planned, written))
    np.testing.assert_allclose(run.step_time_s, priced.step_time_s, rtol=1e-9)
    np.testing.assert_allclose(run.peak_memory_bytes, priced.peak_memory_bytes, rtol=1e-9)


HARDWARE = dict.fromkeys(
    ("megatron-lm@0.12", "megatron-lm@0.19", "torchtitan@0.2.2", "torchtitan@2026.08"), "h100-sxm-80gb"
)  # Ascend for the others
IMPORTED = Path(__file__).resolve().parents[1] / "fixtures/huggingface"
IMPORTS = ("gpt-oss-120b", "kimi-k2", "qwen3-next-80b-a3b", "glm-4.5")
READ = 3  # plans of a preset that are read back
QUICK = {
    ("qwen3-30b-a3b", "megatron-lm@0.19"),
    ("llama-3.1-70b", "megatron-lm@0.12"),
    ("deepseek-v3", "mindspeed-llm@master"),
    ("qwen3-8b", "mindspeed-llm@master"),
    ("qwen3-32b", "mindformers@1.8"),
    ("llama-3.1-8b", "torchtitan@0.2.2"),
    ("llama-3.1-70b", "torchtitan@0.2.2"),
    ("llama-3.1-8b", "torchtitan@2026.08"),
    ("qwen3-30b-a3b", "torchtitan@2026.08"),
    ("qwen3-8b", "mindspeed-llm-fsdp2@master"),
    ("qwen3-30b-a3b", "mindspeed-llm-fsdp2@master"),
    ("gpt-oss-120b", "megatron-lm@0.19"),
    ("nemotron-3-nano-30b-a3b", "megatron-lm@0.19"),
    ("qwen3-next-80b-a3b", "mindspeed-llm@master"),
    ("kimi-k2", "megatron-lm@0.12"),
}


def _job(model: str, target: str) -> Job:
    shape = model_preset(model).model if model in names() else model_from_config_file(IMPORTED / f"{model}.json").model
    small = shape.num_layers < 40
    return parse_job(
        {
            "model": model_to_mapping(shape),
            "cluster": {"hardware": HARDWARE.get(target, "atlas-900-a3-superpod"), "num_devices": 64 if small else 256},
            "training": {"seq_length": 4096, "global_batch_size": 512},
            "software": {"stack": parse_target(target).priced_as, "target": target},
            "search": {"tp": [1], "pp": [1]} if BY_LABEL[target].named else {},  # it has no ranks for others
        }
    )


def _read_back(job: Job, strategy: ParallelStrategy, target: str) -> tuple[Workload, ParallelStrategy]:
    """The job and the plan in the text of the plan's launch file."""
    cluster, name = job.workload.cluster, target.partition("@")[0]
    start = Start("Plan 1", cluster.num_devices, cluster.profile.devices_per_node)
    _, text = launch_file(name, launch_block(job.workload, strategy)[name], start)
    given = Given("plan", {"MASTER_ADDR": "node", "NODE_RANK": "0"})
    read = read_script_job(text, given, cluster.profile, cluster.profile.name, target=target)
    assert read.job.strategy is not None
    return read.job.workload, read.job.strategy


def _price(workload: Workload, strategies: Sequence[ParallelStrategy]) -> np.ndarray:
    priced = estimate(workload, StrategyBatch.of(list(strategies)), constants_for(workload, []))
    return np.stack([priced.step_time_s, priced.peak_memory_bytes])


def _assert_read_back(job: Job, strategy: ParallelStrategy, target: str) -> None:
    workload, read = _read_back(job, strategy, target)
    np.testing.assert_allclose(_price(workload, [read]), _price(job.workload, [strategy]), rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        pytest.param(model, target, marks=[] if (model, target) in QUICK else [pytest.mark.slow])
        for model in (*names(), *IMPORTS)
        for target in BY_LABEL
    ],
)
def test_a_file_that_is_read_back_costs_what_its_plan_costs(model: str, target: str) -> None:
    job = _job(model, target)
    if BY_LABEL[target].untold(job.workload):
        pytest.skip("no file is written for another model")
    planned = _legal_rows(job.workload, job.limits, len(model))
    if not planned:
        pytest.skip("the framework does not train the model")
    draw = np.random.default_rng(len(target))
    for row in draw.choice(len(planned), min(len(planned), READ), replace=False):
        _assert_read_back(job, planned[row], target)


@pytest.mark.parametrize(
    "model",
    [
        "nemotron-nano-9b-v2",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("nemotron-h-8b", "nemotron-3-nano-30b-a3b")),
    ],
)
def test_a_hybrid_is_read_back_with_every_form_of_context_parallelism(model: str) -> None:
    target = "megatron-lm@0.19"
    job = _job(model, target)
    planned = _legal_rows(job.workload, replace(job.limits, tp=(1, 2), cp=(1, 2, 8, 16)), 5)
    forms = {(strategy.cp, strategy.cp_algo): strategy for strategy in planned}
    assert {cp for cp, _ in forms} == {1, 2, 8, 16}
    assert {algo for _, algo in forms} >= {CpAlgo.RING, CpAlgo.HYBRID, CpAlgo.KV_ALLGATHER}
    for strategy in forms.values():
        _assert_read_back(job, strategy, target)

"""Whole lists of random jobs against every plan of their spaces, simulated one by one: dense and with experts, roomy and tight.

Every leaner form of every strategy is placed by the search's own placer, without a time to beat (``Placer.placed_by_pace``). All
else is worked out apart. ``PROVED_JOBS`` says how many jobs are tried.
"""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from app.catalogue.models.presets import model_preset
from cost_models.constants import Constants, prior_constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.optimizers import Optimizer
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Cluster, MemoryRoom, ModelShape, Software, TrainingJob, Workload
from hardware_profiles.catalogue import profile
from search.exhaustive import chunk_pipeline
from search.exhaustive.lattice_search import LatticeSearch
from search.placement.placer import Placer
from search.session.request import SearchRequest
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from tests.oracle.all_plans import every_plan

NUMBER, QUICK = int(os.environ.get("PROVED_JOBS", "40")), 6
ELSEWHERE = 74  # a form has another best pace than its strategy, and is faster there by 0.8 %
PLACES = 20
DENSE = ("qwen3-8b", "qwen3-32b", "llama-3.1-8b", "llama-2-13b")
EXPERTS = ("qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3", "pangu-ultra-moe-718b")
LARGE = ("deepseek-v3", "deepseek-v3.2", "pangu-ultra-moe-718b")
TARGETS = {"ascend": ("any", "mindspeed-llm"), "nvidia": ("any", "megatron-lm@0.12")}
MODES = ("none", "layernorm+mlp_act", "block:50%", "full")
LORA = TrainingTask(Task.LORA, Adapters(16, 32.0, ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")))
STACKS = {"any": "megatron-lm", "torchtitan": "fsdp"}
KINDS = (  # model, hardware, target, and what else differs from a search for pretraining with Adam; others than those above
    ("nemotron-h-8b", "h100-sxm-80gb", "megatron-lm@0.19", {}),
    ("nemotron-3-nano-30b-a3b", "h100-sxm-80gb", "megatron-lm@0.19", {}),
    ("qwen3-next-80b-a3b", "h100-sxm-80gb", "any", {}),
    ("gpt-oss-20b", "h100-sxm-80gb", "megatron-lm@0.19", {}),
    ("deepseek-v3.2", "atlas-800t-a2", "any", {}),
    ("qwen3-30b-a3b", "atlas-800t-a2", "mindformers", {}),
    ("llama-3.1-8b", "h100-sxm-80gb", "torchtitan", {}),
    ("qwen3-8b", "h100-sxm-80gb", "any", {"task": LORA}),
    ("qwen3-8b", "h100-sxm-80gb", "megatron-lm@0.19", {"optimizer": Optimizer("muon")}),
    ("qwen3-14b", "h100-sxm-80gb", "megatron-lm@0.19", {"precision": "fp8"}),
    ("llama-3.1-8b", "h100-sxm-80gb", "megatron-lm@0.19", {"zero_stage": (1, 2, 3)}),
    ("deepseek-v2-lite", "h100-sxm-80gb", "torchtitan", {}),
)


class Job(NamedTuple):
    workload: Workload
    limits: SearchLimits
    constants: Constants


def cut(model: ModelShape, layers: int) -> ModelShape:
    """The model with fewer layers."""
    if model.hybrid_layer_pattern:
        return replace(model, num_layers=layers, hybrid_layer_pattern=model.hybrid_layer_pattern[:layers])
    if model.moe is None or not model.moe.num_leading_dense_layers:
        return replace(model, num_layers=layers)
    return replace(model, num_layers=layers, moe=replace(model.moe, num_leading_dense_layers=1))


def random_job(seed: int) -> Job:
    """One job for a seed; every third asks for more memory than its best plan leaves."""
    some = Random(seed)
    name = some.choice(DENSE if seed % 2 else EXPERTS)
    model = cut(model_preset(name).model, some.choice((12, 14, 16, 18, 20, 24)))
    hardware = some.choice(("atlas-800t-a2", "atlas-800t-a2", "atlas-800t-a2-910b4", "h100-sxm-80gb"))
    if model.moe:
        devices = some.choice((48, 64, 96, 128) if name in LARGE else (8, 16, 24, 32))
    else:
        devices = some.choice((2, 3, 4, 6, 8, 10, 12, 16))
    target = some.choice(TARGETS["nvidia" if hardware.startswith("h100") else "ascend"])
    experts = {"ep": (1, 4, 8, 16), "etp": (1,), "dispatcher": (some.choice((Dispatcher.ALLTOALL, Dispatcher.ALLGATHER)),)}
    limits = SearchLimits(
        tp=some.choice(((1, 2), (1, 4), (2, 8), (1, 2, 4))),
        pp=tuple(pp for pp in range(1, 13) if devices % pp == 0),
        vpp=some.choice(((1, 2), (1, 3), (1, 2, 4), (2, 3, 4))),
        cp=(1,),
        micro_batch_size=(some.choice((1, 2)),),
        recompute=tuple(recompute_mode(mode) for mode in some.sample(MODES, 2)),
        **(experts if model.moe else {}),
    )
    workload = Workload(
        model=model,
        training=TrainingJob(seq_length=4096, global_batch_size=devices * some.choice((2, 4, 12))),
        cluster=Cluster(profile(hardware), devices),
        software=Software("megatron-lm" if hardware.startswith("h100") else "mindspeed-llm", target=target),
    )
    job = Job(workload, limits, prior_constants(workload.cluster.profile.family))
    return tight(job) if seed % 3 == 0 else job


def job_of_kind(seed: int) -> Job:
    """One job of each of ``KINDS`` in turn; every third asks for more memory than its best plan leaves."""
    some = Random(seed)
    name, hardware, target, differing = KINDS[seed % len(KINDS)]
    model, layers, devices = model_preset(name).model, some.choice((8, 12, 16)), some.choice((8, 16))
    devices *= 8 if name in LARGE else 1
    if target != "torchtitan":  # which trains published models alone
        model = cut(model, layers)
    experts = {"ep": (1, 4, 8), "etp": (1,), "dispatcher": (Dispatcher.ALLTOALL,)}
    training = {name: value for name, value in differing.items() if name != "zero_stage"}
    limits = SearchLimits(
        zero_stage=differing.get("zero_stage"),
        tp=some.choice(((1, 2), (1, 4), (1, 2, 4))),
        pp=(1, 2, 4),
        vpp=(1, 2),
        cp=some.choice(((1,), (1, 2), (1, 4))),
        micro_batch_size=(1, 2),
        recompute=tuple(map(recompute_mode, MODES)),
        **(experts if model.moe else {}),
    )
    workload = Workload(
        model=model,
        training=TrainingJob(seq_length=8192, global_batch_size=devices * some.choice((2, 4)), **training),
        cluster=Cluster(profile(hardware), devices),
        software=Software(STACKS.get(target, target.partition("@")[0]), target=target),
    )
    job = Job(workload, limits, prior_constants(workload.cluster.profile.family))
    return tight(job) if seed % 3 == 0 else job


def searched(job: Job) -> LatticeSearch:
    space = search_space(job.workload, job.limits)
    lattice = LatticeSearch(SearchRequest(job.workload, space, job.constants, top=PLACES))
    while lattice.advance():
        pass
    return lattice


def tight(job: Job) -> Job:
    """The job with 10 % less memory than its best plan needs; as it is where it has none."""
    simulated = searched(job).state.candidates.simulated
    if simulated is None:
        return job
    rule, needed_bytes = fit_rule(job.workload, job.constants), simulated.peak_memory_bytes[simulated.step_time_s.argmin()]
    room_bytes = 0.9 * float(needed_bytes) * rule.room_bytes / rule.fit_limit_bytes
    return job._replace(workload=replace(job.workload, room=MemoryRoom(rule.memory_limit_bytes - room_bytes)))


SEEDS = [
    pytest.param(seed, marks=[pytest.mark.slow] * (seed >= QUICK and seed != ELSEWHERE)) for seed in {*range(NUMBER), ELSEWHERE}
]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_place_is_that_of_all_plans(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # count the exchange also in the bound of small chunks
        monkeypatch.setattr(chunk_pipeline, "MANY", 0)
    number_that_fit(random_job(seed))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 0)) for seed in range(max(len(KINDS), NUMBER // 3))]
)
def test_every_place_is_that_of_all_plans_of_every_kind(seed: int) -> None:
    assert number_that_fit(job_of_kind(seed)) > 0


def number_that_fit(job: Job) -> int:
    """Hold the list of a search against all plans, and return how many of these fit."""
    placer, space = Placer(job.workload), search_space(job.workload, job.limits)
    every = every_plan(
        job.workload,
        space,
        job.constants,
        lambda rows: placer.placed_by_pace(job.constants, rows),
    )
    lattice = searched(job)
    candidates = lattice.state.candidates
    assert lattice.is_closed
    found = sorted(candidates.structure_s.values())[:PLACES]
    assert found == pytest.approx([time_s for time_s, _ in every.places(PLACES)], rel=1e-9)
    assert candidates.num_proved == len(found)
    return every.num_fitting

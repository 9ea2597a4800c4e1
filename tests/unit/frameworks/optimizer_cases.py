"""Cases of the rules of optimizers, as those of ``legality_cases``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.optimizers import Optimizer, StateTypes
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Software, Workload
from tests.unit.frameworks.legality_cases import DENSE_JOB, EIGHT_BITS, FLAT, changed, with_features
from tests.unit.frameworks.legality_workloads import job


def updated(name: str, workload: Workload = DENSE_JOB) -> Workload:
    return replace(workload, training=replace(workload.training, optimizer=Optimizer(name)))


def on_hosts(host_memory_bytes: float) -> Workload:
    """A dense job of 12 GB of states a node."""
    profile = replace(DENSE_JOB.cluster.profile, host_memory_bytes=host_memory_bytes)
    return replace(DENSE_JOB, cluster=replace(DENSE_JOB.cluster, profile=profile))


ON_HOST = with_features(FLAT, Feature.OPTIMIZER_CPU_OFFLOAD)


def typed(workload: Workload) -> Workload:
    optimizer = Optimizer(state_types=StateTypes("fp16", "fp8", "fp8"))
    return replace(workload, training=replace(workload.training, optimizer=optimizer))


ON_GPUS = replace(job(family="gpu"), software=Software("megatron-lm"))
TYPED = typed(ON_GPUS)

OPTIMIZERS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    (
        "adam_switches",
        "any",
        updated("muon"),
        FLAT,
        with_features(FLAT, Feature.REUSE_FP32_PARAM, Feature.BF16_MOMENTS),
        ("reuse_fp32_param and bf16_moments with optimizer muon",),
    ),
    ("adam_switches", "any", updated("sgd"), FLAT, with_features(FLAT, Feature.SWAP_OPTIMIZER), ("optimizer sgd",)),
    ("muon_whole_matrices", "any", updated("muon"), FLAT, changed(FLAT, zero_stage=2), ("zero_stage 2",)),
    (
        "muon_whole_matrices",
        "any",
        updated("muon"),
        changed(FLAT, zero_stage=0),
        changed(FLAT, optimizer_shard_size=2),
        ("optimizer_shard_size 2",),
    ),
    ("state_types", "any", TYPED, FLAT, changed(FLAT, zero_stage=2), ("zero_stage 2", "precision bf16")),
    ("state_types", "any", TYPED, FLAT, with_features(FLAT, Feature.BF16_MOMENTS), ("with bf16_moments",)),
    ("state_types", "any", TYPED, FLAT, with_features(FLAT, Feature.SWAP_OPTIMIZER), ("with swap_optimizer",)),
    *(
        ("megatron_sgd_shards", target, updated("sgd"), changed(FLAT, zero_stage=0), FLAT, ("zero_stage 1",))
        for target in ("megatron-lm@0.12", "megatron-lm@0.19", "mindspeed-llm")
    ),
    *(
        ("megatron_host_optimizer", target, DENSE_JOB, ON_HOST, changed(ON_HOST, zero_stage=0), ("zero_stage is 0",))
        for target in ("megatron-lm@0.12", "megatron-lm@0.19")
    ),
    (
        "megatron_host_optimizer",
        "megatron-lm@0.19",
        DENSE_JOB,
        ON_HOST,
        with_features(ON_HOST, Feature.OPTIMIZER_CPU_OFFLOAD, Feature.BF16_MOMENTS),
        ("keeps its moments in FP32",),
    ),
    (
        "swap_or_reuse",
        "any",
        DENSE_JOB,
        ON_HOST,
        with_features(ON_HOST, Feature.SWAP_OPTIMIZER, Feature.OPTIMIZER_CPU_OFFLOAD),
        ("swap_optimizer and optimizer_cpu_offload each",),
    ),
    ("host_memory", "any", on_hosts(13e9), with_features(FLAT, Feature.SWAP_OPTIMIZER), ON_HOST, ("14.96 GiB of host memory",)),
    ("host_memory", "any", on_hosts(12e9), FLAT, with_features(FLAT, Feature.SWAP_OPTIMIZER), ("11.22 GiB of host memory",)),
]
OPTIMIZER_JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    (
        "muon_precision",
        "any",
        updated("muon"),
        updated("muon", job(precision="fp16")),
        "give training.precision bf16 or fp32",
    ),
    ("muon_precision", "any", updated("muon", job(precision="fp32")), updated("muon", EIGHT_BITS), "muon does not train in fp8"),
    ("megatron_optimizer", "megatron-lm@0.12", updated("sgd"), updated("muon"), "adam or sgd, not with muon"),
    ("mindformers_optimizer", "mindformers", DENSE_JOB, updated("muon"), "not with muon"),
    ("torchtitan_optimizer", "torchtitan", DENSE_JOB, updated("sgd"), "not with sgd"),
    ("torchtitan_optimizer", "torchtitan", ON_GPUS, TYPED, "torchtitan has no optimizer whose states have types of their own"),
    ("megatron_optimizer", "megatron-lm@0.12", ON_GPUS, TYPED, "has no optimizer whose states have types"),
    ("state_types", "any", TYPED, typed(DENSE_JOB), "stack mindspeed-llm on ascend device"),
    (
        "state_types",
        "any",
        TYPED,
        typed(replace(ON_GPUS, training=replace(ON_GPUS.training, precision="fp32"))),
        "precision fp32",
    ),
    ("mindspeed_fsdp2_optimizer", "mindspeed-llm-fsdp2", DENSE_JOB, updated("muon"), "not with muon"),
]

"""Cases of the rules on adapters of Megatron-Core, as those of ``legality_cases``."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Workload
from tests.unit.frameworks.legality_cases import (
    ADAPTERS,
    ALONE,
    DEEP,
    DENSE_JOB,
    EIGHT_BITS,
    EIGHT_RANKS,
    FLAT,
    LORA,
    MIXTURE_JOB,
    OVERLAPPED,
    changed,
    trained,
    with_features,
)
from tests.unit.frameworks.legality_workloads import DENSE, LATENT, MIXTURE_PLAN, job

NEW = "megatron-lm@0.19"


def adapted(*modules: str, rank: int = 8, workload: Workload = DENSE_JOB) -> Workload:
    """A job with adapters of some layers."""
    return trained(TrainingTask(Task.LORA, Adapters(rank, 8.0, modules)), workload)


def of_experts(workload: Workload = MIXTURE_JOB) -> Workload:
    return trained(TrainingTask(Task.LORA, ADAPTERS), workload)


def packed(workload: Workload = LORA) -> Workload:
    """The same with two samples of equal length in a sequence."""
    return replace(workload, training=replace(workload.training, mean_squared_length_fraction=0.5))


RECOMPUTED = changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP)
UNGROUPED = changed(MIXTURE_PLAN, features=DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM)
RING = changed(ALONE, dp=8, cp=2, cp_algo=CpAlgo.RING)
ULYSSES = changed(RING, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2)
BRIDGE: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("megatron_adapter_rank", NEW, adapted("linear_qkv", rank=2), changed(ALONE, tp=2, dp=32), ALONE, ("tp 4", "rank 2")),
    ("megatron_adapter_experts", NEW, of_experts(), MIXTURE_PLAN, changed(MIXTURE_PLAN, etp=2, ep=16), ("etp 2",)),
    ("megatron_adapter_experts", NEW, of_experts(), MIXTURE_PLAN, UNGROUPED, ("without moe_grouped_gemm",)),
    ("megatron_adapter_sharding", NEW, LORA, changed(ALONE, zero_stage=1), changed(ALONE, zero_stage=3), ("zero_stage 3",)),
    ("megatron_adapter_fp8", NEW, of_experts(EIGHT_BITS), changed(MIXTURE_PLAN, zero_stage=1),
     changed(MIXTURE_PLAN, zero_stage=0), ("16 and in 8 bits",)),
    ("megatron_adapter_tp_overlap", NEW, LORA, ALONE, with_features(ALONE, Feature.TP_COMM_OVERLAP), ("gather their input",)),
    ("megatron_adapter_ep_overlap", NEW, of_experts(DEEP), changed(EIGHT_RANKS, features=OVERLAPPED), EIGHT_RANKS,
     ("frozen and has no gradient",)),
    ("megatron_adapter_graphs", NEW, LORA, ALONE, with_features(ALONE, Feature.CUDA_GRAPH), ("cuda_graph",)),
    ("megatron_adapter_recompute", NEW, adapted("linear_fc1", "linear_fc2"), FLAT, RECOMPUTED, ("recompute of mlp",)),
    ("megatron_adapter_packing", NEW, packed(), ALONE, changed(ALONE, micro_batch_size=2), ("micro_batch_size 2",)),
    ("megatron_adapter_packing", NEW, packed(), RING, ULYSSES, ("ulysses over cp 2",)),
]  # fmt: skip
TYPED = ModelConstants(model_type="mixtral")
BRIDGE_JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("megatron_adapter_modules", NEW, LORA, adapted("q_proj", "v_proj"), "q_proj, v_proj are not"),
    ("megatron_adapter_modules", NEW, adapted("linear_proj", workload=job(LATENT)), adapted("linear_qkv", workload=job(LATENT)),
     "latent attention has no linear_qkv"),
    ("megatron_adapter_model", NEW, LORA, adapted("linear_qkv", workload=job(replace(DENSE, constants=TYPED))), "type mixtral"),
]  # fmt: skip

"""Rule by rule: a strategy that keeps it, one that breaks it, and the numbers in the sentence."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.run_records import RunRecord, read_run_records
from cost_models.strategy import (
    DEFAULT_FEATURES,
    CpAlgo,
    Dispatcher,
    Feature,
    ParallelStrategy,
    Recompute,
    RecomputeMethod,
    RecomputeModule,
    Schedule,
    StrategyBatch,
)
from cost_models.workload import ModelShape, MoeShape, Workload
from search.legality import (
    RULES,
    TargetError,
    can_fill,
    fillable_device_counts,
    first_violation,
    launchable_on,
    legal_mask,
    parse_target,
    rules_for,
    violations,
)
from search.legality.target import TARGETS
from tests.unit.search.legality_workloads import (
    DENSE,
    DENSE_PLAN,
    FABRIC,
    MIXTURE,
    MIXTURE_PLAN,
    NODE,
    PANGU_JOB,
    PANGU_PLAN,
    job,
)

ROOT = Path(__file__).parents[3]
FLAT = replace(DENSE_PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B)
HALVED = replace(FLAT, features=DEFAULT_FEATURES | Feature.FINE_GRAIN_INTERLEAVE)
FULL = replace(FLAT, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=1)
ALONE = ParallelStrategy(tp=4, dp=16, sequence_parallel=True)  # no pipeline
DENSE_JOB = job()
MIXTURE_JOB = job(MIXTURE)
OVERLAPPED = DEFAULT_FEATURES & ~Feature.OVERLAP_GRAD_REDUCE & ~Feature.OVERLAP_PARAM_GATHER


def changed(strategy: ParallelStrategy, **fields: Any) -> ParallelStrategy:
    return replace(strategy, **fields)


def with_features(strategy: ParallelStrategy, *features: Feature, base: Feature = DEFAULT_FEATURES) -> ParallelStrategy:
    for feature in features:
        base |= feature
    return replace(strategy, features=base)


# (rule, target, workload, a legal strategy, an illegal one, numbers and names that the sentence holds)
PHYSICS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("world_size", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, dp=3), ("tp 4", "pp 4", "dp 3", "48", "64", "dp 4 fills")),
    ("world_size", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, pp=3, dp=5), ("60", "64", "12 does not divide")),
    ("global_batch", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, micro_batch_size=3), ("3 x dp 4 = 12", "256", "8 and 16")),
    ("heads_per_tp", "any", DENSE_JOB, DENSE_PLAN, changed(FLAT, tp=64, pp=1, dp=1), ("tp 64", "32")),
    ("query_groups", "any", job(replace(DENSE, num_query_groups=12)), DENSE_PLAN, changed(FLAT, tp=8, dp=2), ("tp 8", "12")),
    ("mlp_width", "any", job(replace(DENSE, ffn_hidden_size=14338)), changed(FLAT, tp=2, dp=8), FLAT, ("tp 4", "14338", "2 and")),
    ("mlp_width", "any", job(replace(MIXTURE, moe=replace(MIXTURE.moe, shared_expert_ffn_hidden_size=2818))), MIXTURE_PLAN,
     changed(MIXTURE_PLAN, tp=4, dp=8), ("tp 4", "2818")),
    ("experts_need_moe", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, ep=2), ("dense-8b", "ep 2")),
    ("expert_world", "any", MIXTURE_JOB, MIXTURE_PLAN, changed(MIXTURE_PLAN, ep=64), ("64", "tp 2 x cp 1 x dp 16 = 32")),
    ("experts_per_rank", "any", job(MIXTURE, 96), changed(MIXTURE_PLAN, dp=24, ep=16), changed(MIXTURE_PLAN, dp=24, ep=24),
     ("ep 24", "64 experts", "16 and 32")),
    ("expert_width", "any", MIXTURE_JOB, changed(MIXTURE_PLAN, ep=8, etp=2), changed(MIXTURE_PLAN, ep=1, etp=3), ("p 3", "1408")),
    ("vpp_needs_pp", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, pp=1, dp=16), ("vpp 2", "pp is 1")),
    ("layers_per_stage", "any", DENSE_JOB, changed(DENSE_PLAN, vpp=8), changed(DENSE_PLAN, vpp=9), ("36", "32 layers")),
    ("interleaved_fill", "any", job(global_batch_size=16), DENSE_PLAN, changed(DENSE_PLAN, micro_batch_size=2),
     ("pp 4", "are 2")),
    ("interleaved_microbatches", "any", job(global_batch_size=48), changed(DENSE_PLAN, micro_batch_size=3),
     changed(DENSE_PLAN, micro_batch_size=2), ("num_microbatches 6", "pp 4", "48")),
    ("sequence_parallel_needs_tp", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, tp=1, dp=16), ("tp is 1",)),
    ("cp_algo", "any", DENSE_JOB, changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), changed(FLAT, dp=2, cp=2), ("cp 2", "none")),
    ("cp_algo", "any", DENSE_JOB, changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=2),
     changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=3), ("ulysses_degree 3", "divisor of 4")),
    ("ulysses_heads", "any", job(replace(DENSE, num_attention_heads=12, num_query_groups=12)),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2),
     ("4 x ulysses_degree 2 = 8", "12")),
    ("ulysses_query_groups", "any", job(replace(DENSE, num_attention_heads=48, num_query_groups=12)),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2),
     ("8", "12")),
    ("sequence_per_cp", "any", job(seq_length=4100), changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING, sequence_parallel=False),
     changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.RING, sequence_parallel=False), ("4100", "2 x cp = 8", "ring")),
    ("sequence_per_tp", "any", job(seq_length=4098), changed(FLAT, sequence_parallel=False), FLAT, ("4", "4098")),
    ("dispatcher_needed", "any", MIXTURE_JOB, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.NONE), ("ep 32", "none")),
    ("hierarchical_span", "any", MIXTURE_JOB, changed(MIXTURE_PLAN, ep=8, dispatcher=Dispatcher.TWO_LEVEL),
     changed(MIXTURE_PLAN, ep=8, dispatcher=Dispatcher.HIERARCHICAL), ("ep 8", "hierarchical", "of 8 devices")),
    ("hierarchical_groups", "any", PANGU_JOB, PANGU_PLAN, changed(PANGU_PLAN, ep=16, etp=2), ("etp is 2", "tp is 8")),
    ("layer_layout", "any", DENSE_JOB, changed(FLAT, layer_layout=((7, 9, 9, 7),)), changed(FLAT, layer_layout=((8, 8, 8, 7),)),
     ("31 layers", "32", "pp 4")),
    ("layer_layout", "any", DENSE_JOB, FLAT, changed(FLAT, layer_layout=((8, 8), (8, 8))), ("2 chunks of 2", "pp 4")),
    ("schedule", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, schedule=Schedule.ONE_F_ONE_B), ("vpp 2", "interleaved-1f1b")),
    ("schedule", "any", DENSE_JOB, FLAT, changed(FLAT, schedule=Schedule.NONE), ("pp 4", "runs 1f1b")),
    ("schedule", "any", DENSE_JOB, FLAT, changed(FLAT, schedule=Schedule.INTERLEAVED), ("vpp 1", "vpp above 1")),
    ("zero_stage", "any", DENSE_JOB, changed(FLAT, zero_stage=3), changed(FLAT, zero_stage=4), ("zero_stage 4",)),
    ("optimizer_shard", "any", DENSE_JOB, changed(FLAT, optimizer_shard_size=2), changed(FLAT, optimizer_shard_size=3),
     ("3", "dp 4 x cp 1 = 4")),
    ("recompute_method", "any", DENSE_JOB,
     changed(FLAT, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=2),
     changed(FLAT, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK), ("block", "num_layers is 0")),
    ("recompute_method", "any", DENSE_JOB, FLAT, changed(FLAT, recompute_num_layers=2), ("none", "2")),
    ("recompute_modules", "any", DENSE_JOB,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP_ACT),
     changed(FLAT, recompute=Recompute.SELECTIVE), ("selective", "modules none")),
    ("recompute_modules", "any", DENSE_JOB, changed(FULL, recompute_modules=RecomputeModule.MLP_ACT),
     changed(FLAT, recompute_modules=RecomputeModule.MLP_ACT), ("recompute none", "mlp_act")),
    ("recompute_absent", "any", DENSE_JOB,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP),
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MOE | RecomputeModule.MLA_UP_PROJ),
     ("dense-8b", "mla_up_proj + moe")),
    ("recompute_absent", "any", MIXTURE_JOB,
     changed(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MOE),
     changed(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP), ("mixture", "mlp")),
    ("recompute_plan", "any", DENSE_JOB,
     changed(FLAT, recompute=Recompute.FULL, recompute_layers_per_stage=(8, 4, 2, 0)),
     changed(FLAT, recompute=Recompute.FULL, recompute_layers_per_stage=(8, 4, 2)), ("3 entries", "pp 4")),
    ("swap_or_reuse", "any", DENSE_JOB, with_features(FLAT, Feature.SWAP_OPTIMIZER),
     with_features(FLAT, Feature.SWAP_OPTIMIZER, Feature.REUSE_FP32_PARAM), ("choose 1 of the 2",)),
    ("reuse_needs_bf16", "any", job(precision="fp16"), FLAT, with_features(FLAT, Feature.REUSE_FP32_PARAM), ("fp16",)),
    ("one_matmul_fusion", "any", DENSE_JOB, with_features(FLAT, Feature.MC2), with_features(FLAT, Feature.MC2, Feature.COC),
     ("mc2 and coc", "tp 4")),
]  # fmt: skip

UNEVEN = job(replace(DENSE, num_layers=31))
FP32_PARAMETERS = replace(DENSE_JOB, software=replace(DENSE_JOB.software, fp32_parameters=True))
NVIDIA = job(MIXTURE, family="nvidia")
AMD = job(MIXTURE, family="amd")
RACK_TIERS = (replace(NODE, domain_devices=16), FABRIC)
RACKS = replace(NVIDIA, cluster=replace(NVIDIA.cluster, profile=replace(NVIDIA.cluster.profile, tiers=RACK_TIERS)))
FREQUENT = job(replace(MIXTURE, moe=replace(MIXTURE.moe, moe_layer_freq=2)))
DROPPING = job(replace(MIXTURE, moe=replace(MIXTURE.moe, capacity_factor=1.5)))
LEADING = job(replace(MIXTURE, moe=replace(MIXTURE.moe, num_leading_dense_layers=12)))
FB = changed(MIXTURE_PLAN, features=OVERLAPPED | Feature.MOE_COMM_OVERLAP, vpp=2, schedule=Schedule.INTERLEAVED)
FRAMEWORKS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("megatron_features", "megatron-lm", DENSE_JOB, FLAT, with_features(FLAT, Feature.MC2, Feature.SWAP_ATTENTION),
     ("mc2, swap_attention",)),
    ("megatron_query_groups", "megatron-lm", DENSE_JOB, FLAT, changed(FLAT, tp=16, dp=1), ("tp 16", "num_query_groups 8")),
    ("megatron_experts_need_sequence_parallel", "mindspeed-llm", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, sequence_parallel=False), ("tp 2", "ep 32")),
    ("megatron_experts_in_fp16", "megatron-lm", job(MIXTURE, precision="fp16"),
     changed(MIXTURE_PLAN, ep=1, features=DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM),
     changed(MIXTURE_PLAN, features=DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM), ("ep 32", "fp16")),
    ("megatron_grouped_gemm_precision", "mindspeed-llm", job(MIXTURE, precision="fp16"),
     changed(MIXTURE_PLAN, ep=1, features=DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM), changed(MIXTURE_PLAN, ep=1),
     ("bf16", "fp16")),
    ("megatron_cp_sequence", "megatron-lm", job(seq_length=4100),
     changed(ALONE, dp=8, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2, sequence_parallel=False),
     changed(ALONE, dp=4, cp=4, cp_algo=CpAlgo.ULYSSES, ulysses_degree=4, sequence_parallel=False), ("4100", "8")),
    ("megatron_cp_mtp", "megatron-lm", job(replace(DENSE, mtp_num_layers=1)), FLAT,
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), ("cp 2", "1 multi-token")),
    ("megatron_stages", "megatron-lm", UNEVEN, FLAT, changed(FLAT, layer_layout=((8, 7, 8, 8),)), ("31", "pp 4", "7 to 8")),
    ("megatron_stages", "megatron-lm", job(replace(DENSE, num_layers=30)), FLAT, changed(FLAT, layer_layout=((8, 8, 7, 7),)),
     ("30", "8 on the first", "7 to 8", "7 on the last")),
    ("megatron_stages", "megatron-lm", job(replace(DENSE, num_layers=29)), FLAT, DENSE_PLAN, ("29", "vpp 2", "3 to 4")),
    ("megatron_p2p_overlap", "megatron-lm", DENSE_JOB, changed(DENSE_PLAN, features=DEFAULT_FEATURES & ~Feature.OVERLAP_P2P),
     changed(DENSE_PLAN, pp=2, dp=8, features=DEFAULT_FEATURES & ~Feature.OVERLAP_P2P), ("pp 2",)),
    ("megatron_param_gather", "megatron-lm", DENSE_JOB,
     changed(FLAT, zero_stage=0, features=DEFAULT_FEATURES & ~Feature.OVERLAP_GRAD_REDUCE),
     changed(FLAT, features=DEFAULT_FEATURES & ~Feature.OVERLAP_GRAD_REDUCE), ("zero_stage 1",)),
    ("megatron_zero_pipeline", "megatron-lm", DENSE_JOB, changed(ALONE, zero_stage=3), changed(FLAT, zero_stage=3),
     ("3", "pp 4")),
    ("megatron_zero_shard", "megatron-lm", DENSE_JOB, changed(FLAT, optimizer_shard_size=2),
     changed(FLAT, optimizer_shard_size=2, zero_stage=0), ("optimizer_shard_size 2", "is 0")),
    ("megatron_tp_comm_overlap", "megatron-lm", DENSE_JOB, with_features(FLAT, Feature.TP_COMM_OVERLAP),
     changed(with_features(FLAT, Feature.TP_COMM_OVERLAP), sequence_parallel=False), ("tp 4",)),
    ("megatron_cuda_graph", "megatron-lm", DENSE_JOB, with_features(FLAT, Feature.CUDA_GRAPH),
     changed(with_features(FLAT, Feature.CUDA_GRAPH), recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.CORE_ATTN),
     ("selective",)),
    ("megatron_dispatcher", "megatron-lm", NVIDIA, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.HIERARCHICAL), ("hierarchical", "ep 32")),
    ("megatron_deepep_devices", "megatron-lm", AMD, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     ("test-amd", "family amd", "ep 32")),
    ("megatron_deepep_devices", "megatron-lm", RACKS, changed(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER),
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL), ("up to 8", "domains of 16")),
    ("megatron_deepep_capacity", "megatron-lm", DROPPING, with_features(MIXTURE_PLAN, Feature.MOE_PAD_TO_CAPACITY),
     changed(with_features(MIXTURE_PLAN, Feature.MOE_PAD_TO_CAPACITY), dispatcher=Dispatcher.TWO_LEVEL), ("two_level", "ep 32")),
    ("megatron_shared_expert_overlap", "mindspeed-llm", MIXTURE_JOB,
     with_features(MIXTURE_PLAN, Feature.MOE_SHARED_EXPERT_OVERLAP),
     changed(with_features(MIXTURE_PLAN, Feature.MOE_SHARED_EXPERT_OVERLAP), dispatcher=Dispatcher.ALLGATHER),
     ("has 2", "allgather")),
    ("megatron_activation_recompute", "megatron-lm", DENSE_JOB,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM),
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP_ACT), ("dense-8b", "0 experts")),
    ("megatron_recompute_mix", "megatron-lm", DENSE_JOB, FULL, changed(FULL, recompute_modules=RecomputeModule.LAYERNORM),
     ("layernorm",)),
    ("mindspeed_recompute_mix", "mindspeed-llm", DENSE_JOB, changed(FULL, recompute_modules=RecomputeModule.LAYERNORM),
     changed(FULL, recompute_modules=RecomputeModule.LAYERNORM | RecomputeModule.MLP), ("with mlp",)),
    ("mindspeed_recompute_plan", "mindspeed-llm", DENSE_JOB,
     changed(FLAT, recompute=Recompute.FULL, recompute_layers_per_stage=(4, 4, 4, 4)),
     changed(FLAT, recompute=Recompute.FULL, recompute_layers_per_stage=(8, 4, 2, 0)), ("0 to 8",)),
    ("mindformers_swap_optimizer", "mindformers", DENSE_JOB, with_features(FLAT, Feature.SWAP_ATTENTION),
     with_features(FLAT, Feature.SWAP_OPTIMIZER), ("master weights", "moments alone")),
    ("mindformers_zero_stage", "mindformers", DENSE_JOB, changed(FLAT, zero_stage=2), changed(FLAT, zero_stage=3), ("stage 3",)),
    ("mindformers_fine_grain_interleave", "mindformers", DENSE_JOB, changed(HALVED, micro_batch_size=2), HALVED, ("size is 1",)),
    ("mindformers_chunks", "mindformers", DENSE_JOB, changed(FLAT, layer_layout=((12, 10, 9, 1),)),
     changed(FLAT, layer_layout=((11, 11, 10, 0),)), ("0 layers", "11")),
    ("mindformers_experts_need_sequence_parallel", "mindformers", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, sequence_parallel=False), ("tp 2", "64 experts")),
    ("mindformers_expert_tensor_parallel", "mindformers", MIXTURE_JOB, changed(MIXTURE_PLAN, ep=16),
     changed(MIXTURE_PLAN, ep=16, etp=2), ("etp 2", "here 16")),
    ("mindformers_select_recompute", "mindformers", MIXTURE_JOB,
     changed(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM),
     changed(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT),
     ("of mlp_act in mixture", "layernorm alone")),
    ("mindformers_select_recompute", "mindformers", DENSE_JOB,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP | RecomputeModule.MLP_ACT),
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP | RecomputeModule.CORE_ATTN),
     ("of core_attn in dense-8b", "layernorm + mlp_act + mlp alone")),
    ("mindformers_recompute_groups", "mindformers", DENSE_JOB,
     changed(FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1),
     changed(FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=2), ("groups of 2",)),
    ("megatron_recompute_plan", "megatron-lm", DENSE_JOB, FLAT,
     changed(FLAT, recompute=Recompute.FULL, recompute_layers_per_stage=(8, 4, 2, 0)), ("4 entries",)),
    ("mindspeed_features", "mindspeed-llm", DENSE_JOB, FLAT, with_features(FLAT, Feature.TP_COMM_OVERLAP), ("tp_comm_overlap",)),
    ("mindspeed_zero_stage", "mindspeed-llm", DENSE_JOB, FLAT, changed(FLAT, zero_stage=2), ("zero_stage 2",)),
    ("mindspeed_chunks", "mindspeed-llm", DENSE_JOB, FLAT, changed(FLAT, layer_layout=((11, 11, 10, 0),)), ("0 layers", "11")),
    ("mindspeed_dense_stage", "mindspeed-llm", job(replace(MIXTURE, moe=replace(MIXTURE.moe, num_leading_dense_layers=11))),
     MIXTURE_PLAN, changed(MIXTURE_PLAN, pp=4, dp=8), ("position 11", "pp 4", "6 layers")),
    ("mindspeed_dense_stage", "mindspeed-llm", LEADING, changed(MIXTURE_PLAN, pp=1, dp=32, schedule=Schedule.NONE), MIXTURE_PLAN,
     ("position 12", "pp 2", "12 layers")),
    ("mindspeed_mc2", "mindspeed-llm", DENSE_JOB, with_features(FLAT, Feature.MC2),
     changed(with_features(FLAT, Feature.MC2), sequence_parallel=False), ("tp 4", "false")),
    ("mindspeed_mc2", "mindspeed-llm", MIXTURE_JOB, MIXTURE_PLAN, with_features(MIXTURE_PLAN, Feature.MC2), ("(64)",)),
    ("mindspeed_coc", "mindspeed-llm", MIXTURE_JOB, MIXTURE_PLAN, with_features(MIXTURE_PLAN, Feature.COC), ("(64)", "tp 2")),
    ("mindspeed_tp_2d", "mindspeed-llm", DENSE_JOB,
     with_features(changed(FLAT, sequence_parallel=False), Feature.TP_2D, base=DEFAULT_FEATURES & ~Feature.FUSED_NORM),
     with_features(FLAT, Feature.TP_2D), ("tp 4", "true")),
    ("mindspeed_dispatcher", "mindspeed-llm", MIXTURE_JOB, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     ("two_level", "ep 32")),
    ("mindspeed_capacity", "mindspeed-llm", DROPPING, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER),
     ("1.5", "ep 32")),
    ("mindspeed_tp_extend_ep", "mindspeed-llm", MIXTURE_JOB, with_features(MIXTURE_PLAN, Feature.MOE_TP_EXTEND_EP),
     changed(with_features(MIXTURE_PLAN, Feature.MOE_TP_EXTEND_EP), ep=16, etp=2), ("ep 16", "tp 2", "etp 2")),
    ("mindspeed_allgather_overlap", "mindspeed-llm", MIXTURE_JOB,
     changed(with_features(MIXTURE_PLAN, Feature.MOE_ALLGATHER_OVERLAP_COMM), dispatcher=Dispatcher.ALLGATHER),
     with_features(MIXTURE_PLAN, Feature.MOE_ALLGATHER_OVERLAP_COMM), ("ep 32", "it is alltoall")),
    ("mindspeed_alltoall_overlap", "mindspeed-llm", MIXTURE_JOB, with_features(MIXTURE_PLAN, Feature.MOE_ALLTOALL_OVERLAP_COMM),
     changed(with_features(MIXTURE_PLAN, Feature.MOE_ALLTOALL_OVERLAP_COMM), dispatcher=Dispatcher.ALLGATHER),
     ("ep 32", "allgather")),
    ("mindspeed_fb_overlap", "mindspeed-llm", MIXTURE_JOB, FB, changed(FB, vpp=1, schedule=Schedule.ONE_F_ONE_B),
     ("ep 32", "1f1b")),
    ("mindspeed_fb_overlap", "mindspeed-llm", MIXTURE_JOB, FB, changed(FB, features=DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP),
     ("excludes overlap_grad_reduce",)),
    ("mindspeed_fb_noop", "mindspeed-llm", job(replace(MIXTURE, num_layers=23)), FB, changed(FB, layer_layout=((5, 6), (6, 6))),
     ("vpp 2", "23 layers", "positions 5")),
    ("mindspeed_zero_memory", "mindspeed-llm", MIXTURE_JOB,
     with_features(MIXTURE_PLAN, Feature.MOE_ZERO_MEMORY, Feature.MOE_ALLTOALL_OVERLAP_COMM),
     with_features(MIXTURE_PLAN, Feature.MOE_ZERO_MEMORY), ("ep 32",)),
    ("mindspeed_swap_optimizer", "mindspeed-llm", DENSE_JOB, with_features(FLAT, Feature.SWAP_OPTIMIZER),
     changed(with_features(FLAT, Feature.SWAP_OPTIMIZER), zero_stage=0), ("is 0",)),
    ("mindformers_features", "mindformers", DENSE_JOB, with_features(FLAT, Feature.REPLICATED_EMBEDDING),
     with_features(FLAT, Feature.COC), ("coc",)),
    ("mindformers_expert_world", "mindformers", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.RING), ("32", "dp 8 x tp 2 = 16")),
    ("mindformers_dispatcher", "mindformers", MIXTURE_JOB, changed(MIXTURE_PLAN, dispatcher=Dispatcher.HIERARCHICAL),
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL), ("two_level", "ep 32")),
    ("mindformers_dispatcher", "mindformers", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER), ("allgather", "alltoall or hierarchical")),
]  # fmt: skip

# Rules on the job alone: (rule, target, a job that keeps it, one that breaks it, what the sentence holds)
JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("megatron_precision", "megatron-lm", DENSE_JOB, job(precision="nvfp4"), "nvfp4"),
    ("megatron_sandwich_norm", "megatron-lm", DENSE_JOB, job(replace(DENSE, sandwich_norm=True)), "4 norms"),
    ("mindspeed_precision", "mindspeed-llm", DENSE_JOB, job(precision="fp8"), "fp8"),
    ("mindspeed_moe_frequency", "mindspeed-llm", MIXTURE_JOB, FREQUENT, "moe_layer_freq 2"),
    ("mindformers_precision", "mindformers", DENSE_JOB, job(precision="fp8"), "fp8"),
    ("mindformers_sandwich_norm", "mindformers", DENSE_JOB, job(replace(DENSE, sandwich_norm=True)), "4 norms"),
    ("mindformers_mtp", "mindformers", job(replace(DENSE, mtp_num_layers=1)), job(replace(DENSE, mtp_num_layers=2)), "is 2"),
]


def broken(workload: Workload, strategy: ParallelStrategy, target: str) -> dict[str, str]:
    return {violation.rule: violation.sentence for violation in violations(workload, strategy, target)}


@pytest.mark.parametrize(("rule", "target", "workload", "legal", "illegal", "words"), [*PHYSICS, *FRAMEWORKS])
def test_each_rule_tells_legal_from_illegal(
    rule: str, target: str, workload: Workload, legal: ParallelStrategy, illegal: ParallelStrategy, words: tuple[str, ...]
) -> None:
    assert rule not in broken(workload, legal, target)
    sentence = broken(workload, illegal, target)[rule]
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(("rule", "target", "kept", "lost", "words"), JOBS)
def test_rules_on_the_job_hold_for_every_strategy(rule: str, target: str, kept: Workload, lost: Workload, words: str) -> None:
    plan = FLAT if kept.model.moe is None else MIXTURE_PLAN
    assert rule not in broken(kept, plan, target)
    assert words in broken(lost, plan, target)[rule]


def test_every_rule_has_a_case() -> None:
    assert {rule.name for rule in RULES} == {case[0] for case in [*PHYSICS, *FRAMEWORKS, *JOBS]}


@pytest.mark.parametrize(
    ("workload", "strategy", "target"),
    [(DENSE_JOB, DENSE_PLAN, "any"), (DENSE_JOB, FLAT, "megatron-lm"), (MIXTURE_JOB, MIXTURE_PLAN, "mindspeed-llm@master"),
     (MIXTURE_JOB, FB, "mindspeed-llm"), (MIXTURE_JOB, MIXTURE_PLAN, "mindformers@1.8"), (PANGU_JOB, PANGU_PLAN, "any")],
)  # fmt: skip
def test_sound_plans_break_nothing(workload: Workload, strategy: ParallelStrategy, target: str) -> None:
    assert violations(workload, strategy, target) == ()


def test_the_published_pangu_plan_is_physics_only() -> None:
    # PP16 TP8 EP32 VPP2 on 6144: 61 layers in 32 virtual stages of two slots, three of them no-op layers.
    assert violations(PANGU_JOB, PANGU_PLAN) == ()
    assert launchable_on(PANGU_JOB, PANGU_PLAN) == ()
    on_mindspeed = broken(PANGU_JOB, PANGU_PLAN, "mindspeed-llm")
    assert set(on_mindspeed) == {"mindspeed_dispatcher"}
    # With the all-to-all that MindSpeed has, it can be launched, whichever way it saves memory.
    plain = changed(PANGU_PLAN, dispatcher=Dispatcher.ALLTOALL)
    selective = changed(
        with_features(plain, Feature.SWAP_OPTIMIZER),
        recompute=Recompute.SELECTIVE,
        recompute_modules=RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT | RecomputeModule.MLA_UP_PROJ,
    )
    for plan in (plain, selective):
        assert launchable_on(PANGU_JOB, plan) == ("mindspeed-llm@master",)
    assert set(broken(PANGU_JOB, PANGU_PLAN, "mindformers")) == {"mindformers_sandwich_norm"}


def test_no_framework_on_ascend_sends_a_token_once_to_each_node() -> None:
    # DeepEP is Megatron's, on NVIDIA devices; MindFormers' alltoall_deredundency gathers all tokens between nodes.
    two_level = changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL)
    assert violations(MIXTURE_JOB, two_level) == ()
    assert launchable_on(MIXTURE_JOB, two_level) == ()
    assert launchable_on(NVIDIA, two_level) == ("megatron-lm@0.12",)
    assert launchable_on(AMD, two_level) == ()
    assert launchable_on(AMD, MIXTURE_PLAN) == ("megatron-lm@0.12",)


def test_mindformers_swaps_the_moments_where_there_is_no_master_copy() -> None:
    swapped = with_features(FLAT, Feature.SWAP_OPTIMIZER)
    assert set(broken(DENSE_JOB, swapped, "mindformers")) == {"mindformers_swap_optimizer"}
    assert violations(FP32_PARAMETERS, swapped, "mindformers") == ()


def test_a_strategy_is_charged_to_the_first_rule_it_breaks() -> None:
    worst = changed(DENSE_PLAN, tp=64, dp=3, micro_batch_size=7, schedule=Schedule.NONE, zero_stage=9)
    names = [violation.rule for violation in violations(DENSE_JOB, worst)]
    order = [rule.name for rule in RULES]
    assert names == sorted(names, key=order.index)
    assert names[:3] == ["world_size", "global_batch", "heads_per_tp"]
    assert {"schedule", "zero_stage"} <= set(names)
    charged = first_violation(DENSE_JOB, StrategyBatch.of([worst, DENSE_PLAN, changed(worst, dp=4, tp=4)]))
    assert [RULES[i].name if i >= 0 else "" for i in charged] == ["world_size", "", "global_batch"]


def test_rules_of_physics_come_first_and_those_on_the_layout_lead() -> None:
    physics = ["any" in rule.targets for rule in RULES]
    assert physics == sorted(physics, reverse=True)
    leading = [rule.layout_only for rule in rules_for("any")]
    assert leading == sorted(leading, reverse=True)
    assert len({rule.name for rule in RULES}) == len(RULES)


OPTIONS = {
    "sequence_parallel": (0, 1), "cp_algo": (0, 1, 2, 3), "schedule": (0, 1, 2), "zero_stage": (0, 3), "dispatcher": (0, 4),
    "recompute": (0, 2), "recompute_modules": (0, 16), "ulysses_degree": (1, 2), "features": (0, int(DEFAULT_FEATURES)),
}  # fmt: skip


def test_layout_rules_read_the_layout_alone() -> None:
    plans = [MIXTURE_PLAN, changed(MIXTURE_PLAN, dp=3), changed(MIXTURE_PLAN, vpp=5), changed(MIXTURE_PLAN, ep=64, tp=16)]
    batch = StrategyBatch.of(plans)
    for rule in rules_for("any"):
        if rule.layout_only:
            for name, values in OPTIONS.items():
                for value in values:
                    other = replace(batch, **{name: np.full(len(plans), value)})
                    assert np.array_equal(rule.violates(MIXTURE_JOB, other), rule.violates(MIXTURE_JOB, batch)), rule.name


DEGREES = st.sampled_from([1, 2, 3, 4, 8, 16, 32])
STRATEGIES = st.builds(
    ParallelStrategy,
    tp=DEGREES, pp=DEGREES, dp=DEGREES, cp=DEGREES, ep=DEGREES, etp=st.sampled_from([1, 2, 3]), vpp=st.sampled_from([1, 2, 3, 8]),
    micro_batch_size=st.integers(1, 9), sequence_parallel=st.booleans(), cp_algo=st.sampled_from(CpAlgo),
    ulysses_degree=st.sampled_from([1, 2, 3, 4]), schedule=st.sampled_from(Schedule), zero_stage=st.integers(0, 4),
    optimizer_shard_size=st.sampled_from([0, 2, 3]), dispatcher=st.sampled_from(Dispatcher), recompute=st.sampled_from(Recompute),
    recompute_method=st.sampled_from(RecomputeMethod), recompute_num_layers=st.integers(0, 3),
    recompute_modules=st.integers(0, 63).map(RecomputeModule), features=st.integers(0, 2**29 - 1).map(Feature),
    recompute_layers_per_stage=st.sampled_from([None, (1, 0), (99,)]), layer_layout=st.sampled_from([None, ((12, 12),),
     ((6, 6), (6, 6))]),
)  # fmt: skip


@given(
    st.lists(STRATEGIES, min_size=1, max_size=8),
    st.sampled_from([DENSE_JOB, MIXTURE_JOB, DROPPING, LEADING, PANGU_JOB, job(precision="fp16")]),
    st.sampled_from(TARGETS),
)
def test_a_batch_is_judged_as_its_rows_are(plans: list[ParallelStrategy], workload: Workload, target: Any) -> None:
    batch = StrategyBatch.of(plans)
    charged = first_violation(workload, batch, target)
    assert np.array_equal(legal_mask(workload, batch, target), charged < 0)
    for index, plan in zip(charged, plans, strict=True):
        broken_rules = violations(workload, plan, target)
        assert (RULES[index].name if index >= 0 else None) == (broken_rules[0].rule if broken_rules else None)
        assert all(v.sentence and v.source.startswith("[") for v in broken_rules)


def test_targets_are_parsed_and_named_when_wrong() -> None:
    assert parse_target("any").label == "any"
    assert parse_target("megatron-lm").label == "megatron-lm@0.12"
    assert parse_target("megatron-lm@core_r0.12.0").label == "megatron-lm@0.12"
    assert parse_target("mindformers@1.5").name == "mindformers"
    with pytest.raises(TargetError, match=r"'mindspeed' is unknown.*nearest is mindspeed-llm"):
        parse_target("mindspeed")
    with pytest.raises(TargetError, match=r"megatron-lm cover 0\.12.*not '0\.9'"):
        parse_target("megatron-lm@0.9")
    with pytest.raises(TargetError, match="no release"):
        parse_target("any@2")


def test_launchable_on_asks_rules_and_devices() -> None:
    assert launchable_on(MIXTURE_JOB, MIXTURE_PLAN) == ("mindspeed-llm@master", "mindformers@1.8")
    assert launchable_on(NVIDIA, MIXTURE_PLAN) == ("megatron-lm@0.12",)
    assert launchable_on(MIXTURE_JOB, with_features(MIXTURE_PLAN, Feature.REPLICATED_EMBEDDING)) == ("mindformers@1.8",)
    assert launchable_on(MIXTURE_JOB, changed(MIXTURE_PLAN, sequence_parallel=False)) == ()


TINY = ModelShape("tiny", 2, 64, 3, 3, 16, 96, 100, moe=MoeShape(4, 1, 96))


def test_fillable_device_counts_are_products_of_what_divides() -> None:
    # tp in {1, 3}, pp in {1, 2}, cp in {1}, dp in {1, 5}: 1, 2, 3, 5, 6, 10, 15, 30
    workload = job(TINY, seq_length=3, global_batch_size=5)
    assert sorted(fillable_device_counts(workload, 1, how_many=99)) == [1, 2, 3, 5, 6, 10, 15, 30]
    assert fillable_device_counts(workload, 8) == (6, 10)
    assert can_fill(workload, 10)
    assert not can_fill(workload, 8)
    assert can_fill(PANGU_JOB, 6144)


def test_every_filled_count_has_a_legal_strategy() -> None:
    workload = job(DENSE, global_batch_size=48)
    for count in fillable_device_counts(workload, 90, how_many=6):
        target = replace(workload, cluster=replace(workload.cluster, num_devices=count))
        plans = [
            ParallelStrategy(tp=tp, pp=pp, cp=cp, dp=count // (tp * pp * cp), schedule=Schedule(int(pp > 1)),
                             cp_algo=CpAlgo.RING if cp > 1 else CpAlgo.NONE)
            for tp in (1, 2, 4, 8, 16, 32) for pp in range(1, 33) for cp in (1, 2, 4, 8, 16, 32) if count % (tp * pp * cp) == 0
        ]  # fmt: skip
        assert legal_mask(target, StrategyBatch.of(plans)).any(), count


def test_a_million_rows_take_about_a_second() -> None:
    rows = np.random.default_rng(0).integers(0, 3, 65536)
    batch = StrategyBatch.of([PANGU_PLAN, changed(PANGU_PLAN, tp=4, dp=96), changed(PANGU_PLAN, ep=7)]).take(rows)
    start = time.perf_counter()
    first_violation(PANGU_JOB, batch, "mindspeed-llm")
    assert time.perf_counter() - start < 1.0  # 65,536 rows; 0.03 s on an idle core


def test_the_document_states_the_rules() -> None:
    spec = importlib.util.spec_from_file_location("write_legality", ROOT / "scripts" / "write_legality.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "legality.md").read_text(encoding="utf-8") == module.document()


def test_published_runs_are_legal() -> None:
    # All ran, so physics must allow them, except for four rows of one sweep whose 108 heads eight ranks cannot share.
    runs = [run for name in ("ascend", "gpu") for run in read_run_records(ROOT / "calibration" / "runs" / f"{name}.jsonl")]
    illegal = {
        run.id: [v.rule for v in violations(run.workload, run.strategy, "any")] for run in runs if isinstance(run, RunRecord)
    }
    assert len(illegal) > 900
    unexplained = {name: rules for name, rules in illegal.items() if rules and "196b-h13824-ax-384g-tp8" not in name}
    assert unexplained == {}

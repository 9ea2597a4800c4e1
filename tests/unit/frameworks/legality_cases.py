"""Cases of every legality rule: a strategy that keeps it, one that breaks it, and what the sentence says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.shapes.model_constants import ModelConstants, RouterConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, BasePrecision, Reference, Task, TrainingTask
from cost_models.shapes.workload import LocalAttention, Workload
from tests.unit.frameworks.legality_workloads import (
    DENSE,
    DENSE_PLAN,
    FABRIC,
    LATENT,
    MIXTURE,
    MIXTURE_PLAN,
    NODE,
    OVER_HEADS,
    PANGU_JOB,
    PANGU_PLAN,
    job,
)

FLAT = replace(DENSE_PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B)
HALVED = replace(FLAT, features=DEFAULT_FEATURES | Feature.FINE_GRAIN_INTERLEAVE)
UNSPREAD = replace(HALVED, sequence_parallel=False)
FULL = replace(FLAT, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=1)
ALONE = ParallelStrategy(tp=4, dp=16, sequence_parallel=True)  # no pipeline
DENSE_JOB = job()
ADAPTERS = Adapters(8, 8.0, tuple(MEGATRON_MODULES))


def trained(task: TrainingTask, workload: Workload = DENSE_JOB) -> Workload:
    return replace(workload, training=replace(workload.training, task=task))


SFT = trained(TrainingTask(Task.SFT))
LORA = trained(TrainingTask(Task.LORA, ADAPTERS))
ATTENTION = TrainingTask(Task.LORA, Adapters(8, 8.0, ("linear_qkv", "linear_proj")))
PROJECTION = TrainingTask(Task.LORA, Adapters(8, 8.0, ("linear_proj",)))
DPO = trained(TrainingTask(Task.DPO, reference=Reference.MODEL))
MIXTURE_JOB = job(MIXTURE)
SINGLE_BLOCKS = job(
    replace(MIXTURE, hybrid_layer_pattern="*E" * (MIXTURE.num_layers // 2), moe=replace(MIXTURE.moe, num_leading_dense_layers=0))
)
QWEN = job(replace(DENSE, qk_layernorm=True))  # what a class of MindFormers trains
QWEN_MIXTURE = job(replace(MIXTURE, qk_layernorm=True))
WINDOWED = LocalAttention("window", window=1024)
RECURRENT = LocalAttention(
    "linear", num_key_heads=2, num_value_heads=4, key_head_dim=128, value_head_dim=128, conv_kernel=4, full_attention_every=4
)
LINEAR = job(replace(DENSE, local_attention=RECURRENT))
EIGHT_BITS = job(MIXTURE, precision="fp8")
BIASED = job(replace(MIXTURE, moe=replace(MIXTURE.moe, expert_biases=True)) if MIXTURE.moe else MIXTURE)
OVERLAPPED = DEFAULT_FEATURES & ~Feature.OVERLAP_GRAD_REDUCE & ~Feature.OVERLAP_PARAM_GATHER
DEEP = job(replace(MIXTURE, num_layers=61), global_batch_size=256)
EIGHT_RANKS = ParallelStrategy(
    pp=8, dp=8, ep=8, vpp=4, schedule=Schedule.INTERLEAVED, dispatcher=Dispatcher.ALLTOALL,
    features=OVERLAPPED | Feature.MOE_COMM_OVERLAP,
)  # fmt: skip


def changed(strategy: ParallelStrategy, **fields: Any) -> ParallelStrategy:
    return replace(strategy, **fields)


def with_features(strategy: ParallelStrategy, *features: Feature, base: Feature = DEFAULT_FEATURES) -> ParallelStrategy:
    for feature in features:
        base |= feature
    return replace(strategy, features=base)


MLA_JOB = job(LATENT)
PLAIN_QUERIES = replace(LATENT, mla=replace(LATENT.mla, q_lora_rank=0)) if LATENT.mla else LATENT
UP_PROJ = changed(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLA_UP_PROJ)
BY_BEST = replace(
    MIXTURE,
    moe=replace(MIXTURE.moe, num_groups=8, group_topk=3) if MIXTURE.moe else None,
    constants=ModelConstants(router=RouterConstants("softmax", normalize_topk=False, topk_scale=16.0, expert_bias=False)),
)
SANDWICHED = job(replace(DENSE, sandwich_norm=True))
FB = changed(MIXTURE_PLAN, features=OVERLAPPED | Feature.MOE_COMM_OVERLAP, vpp=2, schedule=Schedule.INTERLEAVED)

# Megatron's documentation for DeepSeek-V3: Et*3|(tt|)*29,m|L.
MTP_APART = changed(PANGU_PLAN, layer_layout=((3, *[2] * 15), (*[2] * 14, 0, 0)), mtp_before_head=1)

# (rule, target, workload, a legal strategy, an illegal one, numbers and names that the sentence holds)
PHYSICS: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("world_size", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, dp=3), ("tp 4", "pp 4", "dp 3", "48", "64", "dp 4 fills")),
    ("world_size", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, pp=3, dp=5), ("60", "64", "12 does not divide")),
    ("global_batch", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, micro_batch_size=3), ("3 x dp 4 = 12", "256", "8 and 16")),
    ("heads_per_tp", "any", DENSE_JOB, DENSE_PLAN, changed(FLAT, tp=64, pp=1, dp=1), ("tp 64", "32")),
    ("heads_per_tp", "any", job(replace(DENSE, local_attention=RECURRENT)), changed(FLAT, tp=2, dp=8), FLAT,
     ("tp 4", "local_attention.num_key_heads 2")),
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
    ("mtp_stage", "any", PANGU_JOB, MTP_APART, changed(MTP_APART, layer_layout=((3, *[2] * 15), (*[2] * 13, 1, 0, 1))),
     ("mtp_before_head 1", "stage 31 of 32", "1 layers lie behind it")),
    ("mtp_stage", "any", PANGU_JOB, MTP_APART, changed(MTP_APART, mtp_before_head=32), ("32 virtual stages", "0 to 31")),
    ("mtp_stage", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, mtp_before_head=1), ("dense-8b has no multi-token",)),
    ("layers_per_stage", "any", DENSE_JOB, changed(DENSE_PLAN, vpp=8), changed(DENSE_PLAN, vpp=9), ("36", "32 layers")),
    ("interleaved_fill", "any", job(global_batch_size=16), DENSE_PLAN, changed(DENSE_PLAN, micro_batch_size=2),
     ("pp 4", "are 2")),
    ("interleaved_microbatches", "any", job(global_batch_size=48), changed(DENSE_PLAN, micro_batch_size=3),
     changed(DENSE_PLAN, micro_batch_size=2), ("num_microbatches 6", "pp 4", "48")),
    ("interleaved_microbatches", "any", job(global_batch_size=56), changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=5),
     changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=6), ("groups of 6", "num_microbatches 14", "leaves 2", "pp 4")),
    ("interleaved_group", "any", DENSE_JOB, changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=64),
     changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=65), ("stage 65", "from pp 4 to num_microbatches 64")),
    ("interleaved_group", "any", DENSE_JOB, FLAT, changed(FLAT, microbatch_group_size_per_vp_stage=8), ("stage 8", "1f1b")),
    ("interleaved_group", "any", DENSE_JOB, changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=4),
     changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=3), ("stage 3", "pp 4")),
    # dp 4: 4 samples a replica fill ZB-1p over pp 4, 7 ZB-2p, ZB-V and DualPipeV, 8 DualPipe.
    ("schedule_fill", "any", job(global_batch_size=16), changed(FLAT, schedule=Schedule.ZB1P),
     changed(FLAT, schedule=Schedule.ZB2P), ("zb2p over pp 4", "at least 7", "are 4")),
    ("schedule_fill", "any", job(global_batch_size=28), changed(DENSE_PLAN, schedule=Schedule.ZBV),
     changed(DENSE_PLAN, schedule=Schedule.ZBV, micro_batch_size=7), ("zbv", "at least 7", "are 1")),
    ("schedule_fill", "any", job(global_batch_size=28), changed(DENSE_PLAN, schedule=Schedule.DUALPIPE_V),
     changed(FLAT, schedule=Schedule.DUALPIPE), ("dualpipe over pp 4", "at least 8", "are 7")),
    ("dualpipe_halves", "any", job(global_batch_size=32), changed(FLAT, schedule=Schedule.DUALPIPE),
     changed(FLAT, schedule=Schedule.DUALPIPE, pp=5), ("5 and 8",)),
    ("dualpipe_halves", "any", job(global_batch_size=36), changed(FLAT, schedule=Schedule.ZB2P),
     changed(FLAT, schedule=Schedule.DUALPIPE), ("4 and 9",)),
    ("overlap_needs_pairs", "any", MIXTURE_JOB, changed(FB, schedule=Schedule.DUALPIPE_V), changed(FB, schedule=Schedule.ZBV),
     ("ep 32", "zbv")),
    ("overlap_needs_pairs", "any", MIXTURE_JOB, FB, changed(FB, vpp=1, schedule=Schedule.ONE_F_ONE_B), ("1f1b", "vpp is 1")),
    ("sequence_parallel_needs_tp", "any", DENSE_JOB, DENSE_PLAN, changed(DENSE_PLAN, tp=1, dp=16), ("tp is 1",)),
    ("cp_algo", "any", DENSE_JOB, changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), changed(FLAT, dp=2, cp=2), ("cp 2", "none")),
    ("cp_algo", "any", DENSE_JOB, changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=2),
     changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=3), ("ulysses_degree 3", "divisor of 4")),
    ("ulysses_heads", "any", job(replace(DENSE, num_attention_heads=12, num_query_groups=12)),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING), changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2),
     ("4 x ulysses_degree 2 = 8", "12")),
    ("ulysses_heads", "any", job(replace(DENSE, local_attention=RECURRENT)), changed(FLAT, tp=2, dp=4, cp=1),
     changed(FLAT, tp=2, dp=4, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), ("= 4", "local_attention.num_key_heads 2")),
    ("local_attention_ring", "any", job(replace(DENSE, local_attention=WINDOWED)),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING),
     ("cp 2", "cp_algo ring", "local_attention.kind window")),
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
    ("schedule", "any", DENSE_JOB, FLAT, changed(FLAT, schedule=Schedule.NONE), ("none with pp 4", "runs 1f1b")),
    ("schedule", "any", DENSE_JOB, FLAT, changed(FLAT, schedule=Schedule.INTERLEAVED),
     ("vpp 1", "runs 1f1b, gpipe, zb1p, zb2p or dualpipe")),
    ("schedule", "any", DENSE_JOB, changed(FLAT, schedule=Schedule.ZB1P), changed(DENSE_PLAN, schedule=Schedule.ZB1P),
     ("zb1p with pp 4 and vpp 2", "runs interleaved-1f1b, zbv or dualpipev")),
    ("schedule", "any", DENSE_JOB, changed(DENSE_PLAN, schedule=Schedule.ZBV), changed(FLAT, schedule=Schedule.ZBV), ("vpp 1",)),
    ("schedule", "any", DENSE_JOB, changed(FLAT, pp=1, dp=16), changed(FLAT, pp=1, dp=16, schedule=Schedule.DUALPIPE),
     ("dualpipe with pp 1", "runs none")),
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
    ("recompute_absent", "any", DENSE_JOB, changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP),
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
    ("one_hidden_exchange", "any", MIXTURE_JOB, with_features(MIXTURE_PLAN, Feature.MOE_ALLTOALL_OVERLAP_COMM),
     with_features(MIXTURE_PLAN, Feature.MOE_ALLTOALL_OVERLAP_COMM, Feature.MOE_COMM_OVERLAP),
     ("moe_alltoall_overlap_comm and moe_comm_overlap", "exchange")),
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
    ("megatron_cp_attention", "megatron-lm", DENSE_JOB, changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING),
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.RING, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION), ("cp 2",)),
    ("megatron_ulysses_query_groups", "megatron-lm", DENSE_JOB,
     changed(FLAT, dp=2, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2),
     changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.ULYSSES, ulysses_degree=4), ("= 16", "num_query_groups 8")),
    ("megatron_ulysses_query_groups", "megatron-lm@0.19", job(replace(DENSE, num_query_groups=1)),
     changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.RING), changed(FLAT, dp=1, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=2),
     ("= 8", "num_query_groups 1")),
    ("megatron_ulysses_latent", "megatron-lm@0.12", job(LATENT), changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.RING),
     changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), ("latent attention", "cp 2")),
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
    ("megatron_tp_comm_overlap", "megatron-lm@0.12", job(LATENT), FLAT, with_features(FLAT, Feature.TP_COMM_OVERLAP),
     ("latent attention",)),
    ("megatron_tp_comm_overlap", "megatron-lm@0.12", job(replace(DENSE, mtp_num_layers=1)), FLAT,
     with_features(FLAT, Feature.TP_COMM_OVERLAP), ("1 multi-token-prediction layers",)),
    ("megatron_cuda_graph", "megatron-lm", DENSE_JOB, with_features(FLAT, Feature.CUDA_GRAPH),
     changed(with_features(FLAT, Feature.CUDA_GRAPH), recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.CORE_ATTN),
     ("selective",)),
    ("megatron_dispatcher", "megatron-lm", NVIDIA, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.HIERARCHICAL), ("hierarchical", "ep 32")),
    ("megatron_deepep_devices", "megatron-lm", AMD, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     ("test-amd", "family amd", "ep 32")),
    ("megatron_deepep_devices", "megatron-lm@0.19", AMD, MIXTURE_PLAN, changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL),
     ("HybridEP", "test-amd", "family amd", "ep 32")),
    ("megatron_deepep_devices", "megatron-lm@0.12", RACKS, changed(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER),
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
    ("fused_attention", "any", job(precision="fp32", family="nvidia"),
     changed(FLAT, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION), FLAT, ("fp32", "switch it off")),
    ("fine_grain_interleave", "any", DENSE_JOB, changed(UNSPREAD, micro_batch_size=2), UNSPREAD, ("size is 1",)),
    ("fine_grain_interleave", "any", DENSE_JOB, HALVED, UNSPREAD, ("of its tokens with sequence_parallel",)),
    ("mindformers_halves", "mindformers", QWEN, changed(HALVED, micro_batch_size=2), HALVED, ("size is 1", "by samples")),
    ("mindformers_stages", "mindformers", DENSE_JOB, changed(FLAT, layer_layout=((12, 10, 9, 1),)),
     changed(FLAT, layer_layout=((11, 11, 10, 0),)), ("stage 4 of 4 holds 0 layers", "11")),
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
    ("mindspeed_stages", "mindspeed-llm", job(replace(MIXTURE, moe=replace(MIXTURE.moe, num_leading_dense_layers=11))),
     changed(MIXTURE_PLAN, layer_layout=((24, 0),)), changed(MIXTURE_PLAN, pp=4, dp=8), ("11 dense", "stage 2", "vpp is 1")),
    ("mindspeed_stages", "mindspeed-llm", LEADING, changed(MIXTURE_PLAN, pp=1, dp=32, schedule=Schedule.NONE), MIXTURE_PLAN,
     ("12 dense", "stage 2", "vpp is 1")),
    ("mindspeed_stages", "mindspeed-llm", PANGU_JOB, PANGU_PLAN, MTP_APART, ("mtp_before_head is 1", "leave 0 alone")),
    ("megatron_stages", "megatron-lm@0.19", PANGU_JOB, MTP_APART, changed(MTP_APART, mtp_before_head=15), ("15", "0 to 14")),
    ("megatron_stages", "megatron-lm@0.12", PANGU_JOB, ALONE, MTP_APART, ("61 layers", "pp 16", "0 to 3")),
    ("megatron_stages", "megatron-lm@0.12", job(replace(DENSE, num_layers=30)),
     changed(DENSE_PLAN, layer_layout=((3, 4, 4, 4), (4, 4, 4, 3))),
     changed(DENSE_PLAN, layer_layout=((4, 4, 3, 4), (4, 4, 3, 4))), ("30 layers", "vpp 2")),
    ("mindspeed_window", "mindspeed-llm", job(replace(DENSE, local_attention=WINDOWED)), FLAT,
     changed(FLAT, cp=2, dp=2, cp_algo=CpAlgo.RING), ("4096", "1024")),
    ("mindspeed_group_choice", "mindspeed-llm", job(BY_BEST), MIXTURE_PLAN, changed(MIXTURE_PLAN, ep=2), ("topk 3", "ep 2")),
    ("mindspeed_group_choice", "mindspeed-llm", job(BY_BEST), MIXTURE_PLAN, changed(MIXTURE_PLAN, micro_batch_size=2), ("is 2",)),
    ("mindspeed_mla_queries", "mindspeed-llm", job(PLAIN_QUERIES), changed(MIXTURE_PLAN, tp=1, dp=32, sequence_parallel=False),
     MIXTURE_PLAN, ("tp 2", "q_lora_rank", "latent has none")),
    ("mindspeed_mla_up_proj", "mindspeed-llm", MLA_JOB, UP_PROJ, changed(UP_PROJ, sequence_parallel=False), ("tp 2", "false")),
    ("mindspeed_post_norm", "mindspeed-llm", SANDWICHED,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP_ACT),
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM), ("layernorm", "norms behind")),
    ("mindspeed_fb_overlap", "mindspeed-llm", job(replace(MIXTURE, sandwich_norm=True)), MIXTURE_PLAN, FB, ("norms behind",)),
    ("mindspeed_fb_overlap", "mindspeed-llm", job(MIXTURE, global_batch_size=32), MIXTURE_PLAN, FB, ("2 x pp = 4", "are 2")),
    ("mindspeed_alltoall_overlap", "mindspeed-llm", MIXTURE_JOB,
     with_features(changed(MIXTURE_PLAN, ep=4), Feature.MOE_ALLTOALL_OVERLAP_COMM, Feature.MOE_TP_EXTEND_EP),
     with_features(changed(MIXTURE_PLAN, ep=2), Feature.MOE_ALLTOALL_OVERLAP_COMM, Feature.MOE_TP_EXTEND_EP), ("tp 2", "is 2")),
    ("mindspeed_mc2", "mindspeed-llm", DENSE_JOB, with_features(FLAT, Feature.MC2),
     changed(with_features(FLAT, Feature.MC2), sequence_parallel=False), ("tp 4", "false")),
    ("mindspeed_mc2", "mindspeed-llm", MIXTURE_JOB, MIXTURE_PLAN, with_features(MIXTURE_PLAN, Feature.MC2), ("(64)",)),
    ("mindspeed_coc", "mindspeed-llm", EIGHT_BITS, MIXTURE_PLAN, with_features(MIXTURE_PLAN, Feature.COC), ("fp8", "tp 2")),
    ("mindspeed_norm_over_heads", "mindspeed-llm", OVER_HEADS, changed(FLAT, tp=1, dp=16), changed(FLAT, tp=2, dp=8), ("is 2",)),
    ("mindspeed_linear_attention", "mindspeed-llm", LINEAR, changed(FLAT, tp=1, dp=16), changed(FLAT, tp=2, dp=8), ("tp 2",)),
    ("mindspeed_linear_attention", "mindspeed-llm", LINEAR, changed(FLAT, tp=1, dp=16),
     changed(FLAT, tp=1, dp=8, cp=2, cp_algo=CpAlgo.RING), ("cp 2",)),
    ("mindspeed_linear_noop", "mindspeed-llm", job(replace(LINEAR.model, num_layers=28)),
     changed(FLAT, tp=1, dp=16, layer_layout=((8, 8, 8, 4),)),
     changed(FLAT, tp=1, dp=16, layer_layout=((8, 7, 7, 6),)), ("4th layer", "28 layers")),
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
    ("megatron_schedule", "megatron-lm", DENSE_JOB, FLAT, changed(FLAT, schedule=Schedule.GPIPE),
     ("gpipe", "1f1b or interleaved-1f1b over pp 4")),
    ("mindspeed_schedule", "mindspeed-llm", MIXTURE_JOB, changed(FB, schedule=Schedule.DUALPIPE_V),
     changed(FB, schedule=Schedule.ZBV), ("zbv", "or dualpipev")),
    ("mindspeed_dualpipev", "mindspeed-llm", MIXTURE_JOB, changed(FB, schedule=Schedule.DUALPIPE_V),
     changed(FB, schedule=Schedule.DUALPIPE_V, features=OVERLAPPED), ("moe_comm_overlap",)),
    ("mindspeed_dualpipev", "mindspeed-llm", MIXTURE_JOB, FB, changed(FB, schedule=Schedule.DUALPIPE_V, cp=2, dp=8), ("cp 2",)),
    ("mindspeed_dualpipev", "mindspeed-llm", job(replace(MIXTURE, tied_embeddings=True)), FB,
     changed(FB, schedule=Schedule.DUALPIPE_V), ("of mixture",)),
    ("mindformers_schedule", "mindformers", DENSE_JOB, changed(FLAT, schedule=Schedule.GPIPE),
     changed(FLAT, schedule=Schedule.ZB1P), ("zb1p", "gpipe or zbv")),
    ("mindformers_zbv", "mindformers", job(global_batch_size=28), DENSE_PLAN, changed(DENSE_PLAN, schedule=Schedule.ZBV),
     ("at least 8", "are 7")),
    ("mindformers_group_size", "mindformers", DENSE_JOB, changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=4),
     changed(DENSE_PLAN, microbatch_group_size_per_vp_stage=8), ("stage 8", "pp 4")),
    ("mindspeed_fb_noop", "mindspeed-llm", job(replace(MIXTURE, num_layers=23)), FB, changed(FB, layer_layout=((5, 6), (6, 6))),
     ("vpp 2", "23 layers", "positions 5")),
    ("mindspeed_fb_noop", "mindspeed-llm", job(replace(MIXTURE, num_layers=22)), changed(FB, layer_layout=((6, 6), (6, 4))),
     changed(FB, layer_layout=((6, 6), (5, 5))), ("vpp 2", "22 layers", "positions 17, 23")),
    # Python iterates {7, 62, 63} from 63, and {5, 62, 63} from 5: MindSpeed looks at that one.
    ("mindspeed_fb_noop", "mindspeed-llm", DEEP, changed(EIGHT_RANKS, layer_layout=((2, 2, 2, 1, *[2] * 4), *[(2,) * 8] * 2,
     (2,) * 7 + (0,))), changed(EIGHT_RANKS, layer_layout=((2, 2, 1, *[2] * 5), *[(2,) * 8] * 2, (2,) * 7 + (0,))),
     ("vpp 4", "positions 5, 62, 63")),
    ("mindspeed_zero_memory", "mindspeed-llm", MIXTURE_JOB,
     with_features(MIXTURE_PLAN, Feature.MOE_ZERO_MEMORY, Feature.MOE_ALLTOALL_OVERLAP_COMM),
     with_features(MIXTURE_PLAN, Feature.MOE_ZERO_MEMORY), ("ep 32",)),
    ("mindspeed_coc_adapters", "mindspeed-llm", LORA, FLAT, with_features(FLAT, Feature.COC), ("coc", "adapters")),
    ("mindspeed_swap_adapters", "mindspeed-llm", LORA, FLAT, with_features(FLAT, Feature.SWAP_ATTENTION), ("swap_attention",)),
    ("mindspeed_expert_adapters", "mindspeed-llm", trained(TrainingTask(Task.LORA, ADAPTERS), MIXTURE_JOB),
     changed(MIXTURE_PLAN, etp=2, ep=16), MIXTURE_PLAN, ("etp 1 and tp 2", "etp = tp")),
    ("mindspeed_adapters_empty_stage", "mindspeed-llm", LORA, changed(FLAT, layer_layout=((9, 8, 8, 7),)),
     changed(FLAT, layer_layout=((11, 11, 10, 0),)), ("no-op layers alone", "pp 4")),
    ("mindspeed_swap_optimizer", "mindspeed-llm", DENSE_JOB, with_features(FLAT, Feature.SWAP_OPTIMIZER),
     changed(with_features(FLAT, Feature.SWAP_OPTIMIZER), zero_stage=0), ("is 0",)),
    ("megatron_ep_overlap", "megatron-lm@0.19", MIXTURE_JOB,
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED), Feature.MOE_COMM_OVERLAP),
     with_features(MIXTURE_PLAN, Feature.MOE_COMM_OVERLAP), ("schedule is 1f1b",)),
    ("megatron_ep_overlap", "megatron-lm@0.19", MIXTURE_JOB,
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED), Feature.MOE_COMM_OVERLAP),
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED, recompute=Recompute.FULL,
                           recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1), Feature.MOE_COMM_OVERLAP),
     ("full recompute",)),
    ("megatron_ep_overlap", "megatron-lm@0.19", MIXTURE_JOB,
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED), Feature.MOE_COMM_OVERLAP),
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED, dispatcher=Dispatcher.ALLGATHER),
                   Feature.MOE_COMM_OVERLAP), ("allgather",)),
    ("megatron_single_blocks", "megatron-lm@0.19", SINGLE_BLOCKS,
     changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED),
     with_features(changed(MIXTURE_PLAN, vpp=2, schedule=Schedule.INTERLEAVED), Feature.MOE_COMM_OVERLAP),
     ("layers of one block", "without moe_comm_overlap")),
    ("megatron_expert_biases", "megatron-lm@0.19", BIASED, MIXTURE_PLAN, changed(MIXTURE_PLAN, ep=16, etp=2), ("etp 2",)),
    ("megatron_fp8_recompute", "megatron-lm@0.19", job(precision="fp8"), FLAT,
     changed(FLAT, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM), ("layernorm", "delayed")),
    ("megatron_query_groups", "megatron-lm@0.19", job(replace(DENSE, num_query_groups=2)), FLAT, changed(FLAT, tp=3), ("tp 3",)),
    ("megatron_moments", "megatron-lm@0.19", DENSE_JOB, with_features(FLAT, Feature.BF16_MOMENTS),
     changed(FLAT, zero_stage=0, features=DEFAULT_FEATURES | Feature.BF16_MOMENTS), ("bf16_moments", "zero_stage 0")),
    ("megatron_linear_heads", "megatron-lm@0.19",
     job(replace(DENSE, local_attention=LocalAttention("linear", 4, num_key_heads=4, num_value_heads=8))), FLAT,
     changed(FLAT, tp=8), ("tp 8", "4 key heads")),
    ("mindformers_features", "mindformers", DENSE_JOB, with_features(FLAT, Feature.FINE_GRAIN_INTERLEAVE),
     with_features(FLAT, Feature.REPLICATED_EMBEDDING), ("replicated_embedding",)),
    ("mindformers_deredundency", "mindformers", MIXTURE_JOB, changed(MIXTURE_PLAN, dispatcher=Dispatcher.HIERARCHICAL),
     changed(MIXTURE_PLAN, ep=4, dispatcher=Dispatcher.HIERARCHICAL), ("ep 4", "the 8 devices")),
    ("mindformers_hybrid_cp", "mindformers", DENSE_JOB, changed(FLAT, cp=2, dp=2, cp_algo=CpAlgo.ULYSSES),
     changed(FLAT, cp=2, dp=2, cp_algo=CpAlgo.HYBRID), ("cp 2", "hybrid_cp")),
    ("mindformers_expert_world", "mindformers", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, dp=8, cp=2, cp_algo=CpAlgo.RING), ("32", "dp 8 x tp 2 = 16")),
    ("mindformers_adapter_ulysses", "mindformers", LORA, changed(FLAT, cp=2, dp=2, zero_stage=0, cp_algo=CpAlgo.RING),
     changed(FLAT, cp=2, dp=2, zero_stage=0, cp_algo=CpAlgo.ULYSSES), ("cp 2", "replaced")),
    ("mindformers_adapter_sharding", "mindformers", LORA, changed(FLAT, zero_stage=0), FLAT, ("zero_stage 1", "frozen weights")),
    ("mindformers_dispatcher", "mindformers", MIXTURE_JOB, changed(MIXTURE_PLAN, dispatcher=Dispatcher.HIERARCHICAL),
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL), ("two_level", "ep 32")),
    ("mindformers_dispatcher", "mindformers", MIXTURE_JOB, MIXTURE_PLAN,
     changed(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER), ("allgather", "alltoall or hierarchical")),
]  # fmt: skip

# Rules on the job alone: (rule, target, a job that keeps it, one that breaks it, what the sentence holds)
JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("megatron_task", "megatron-lm", DENSE_JOB, SFT, "not sft"),
    ("megatron_task", "megatron-lm@0.19", LORA, trained(TrainingTask(Task.QLORA, ADAPTERS, BasePrecision.NF4)), "not qlora"),
    ("mindspeed_task", "mindspeed-llm", SFT, trained(TrainingTask(Task.QLORA, ADAPTERS, BasePrecision.NF4)), "not qlora"),
    ("mindspeed_adapters", "mindspeed-llm", LORA, trained(TrainingTask(Task.LORA, Adapters(8, 8.5, ADAPTERS.modules))), "is 8.5"),
    (
        "mindspeed_adapters",
        "mindspeed-llm",
        LORA,
        trained(TrainingTask(Task.LORA, Adapters(8, 8.0, ("q_proj",)))),
        "q_proj are not",
    ),
    ("mindspeed_adapters", "mindspeed-llm", DPO, trained(replace(DPO.training.task, adapters=ADAPTERS)), "second model"),
    (
        "mindspeed_adapters",
        "mindspeed-llm",
        DPO,
        trained(TrainingTask(Task.DPO, reference=Reference.PRECOMPUTED)),
        "reads no log-probabilities",
    ),
    ("mindformers_task", "mindformers", LORA, DPO, "not dpo"),
    (
        "mindformers_adapters",
        "mindformers",
        LORA,
        trained(TrainingTask(Task.LORA, Adapters(8, 8.0, ("q_proj",)))),
        "q_proj are not",
    ),
    (
        "mindformers_adapters",
        "mindformers",
        trained(ATTENTION, MIXTURE_JOB),
        trained(LORA.training.task, MIXTURE_JOB),
        "experts are",
    ),
    ("mindformers_adapters", "mindformers", trained(PROJECTION, job(LATENT)), trained(ATTENTION, job(LATENT)), "which is whole"),
    ("mindformers_adapters", "mindformers", LORA, trained(LORA.training.task, job(precision="fp32")), "kept in FP32"),
    ("megatron_precision", "megatron-lm", DENSE_JOB, job(precision="nvfp4"), "nvfp4"),
    ("megatron_sandwich_norm", "megatron-lm", DENSE_JOB, job(replace(DENSE, sandwich_norm=True)), "4 norms"),
    (
        "megatron_model",
        "megatron-lm",
        DENSE_JOB,
        job(replace(DENSE, local_attention=LocalAttention("window", window=4096))),
        "limited to a window",
    ),
    ("mindspeed_precision", "mindspeed-llm", DENSE_JOB, job(precision="nvfp4"), "nvfp4"),
    ("mindspeed_model", "mindspeed-llm", DENSE_JOB, job(replace(DENSE, alibi=True)), "(alibi)"),
    (
        "mindspeed_layer_spec",
        "mindspeed-llm",
        job(LATENT),
        job(replace(LATENT, sandwich_norm=True)),
        "latent attention and norms behind",
    ),
    ("mindspeed_moe_frequency", "mindspeed-llm", MIXTURE_JOB, FREQUENT, "moe_layer_freq 2"),
    ("mindformers_precision", "mindformers", DENSE_JOB, job(precision="fp8"), "fp8"),
    ("mindformers_model", "mindformers", QWEN, job(replace(QWEN.model, mtp_num_layers=1)), "does not build multi-token"),
    ("mindformers_sandwich_norm", "mindformers", DENSE_JOB, job(replace(DENSE, sandwich_norm=True)), "4 norms"),
    ("mindformers_mtp", "mindformers", job(replace(DENSE, mtp_num_layers=1)), job(replace(DENSE, mtp_num_layers=2)), "is 2"),
]

"""Cases of torchtitan's rules, as those of ``legality_cases``. Its models are Llama 3.1 8B, and Qwen3 of its own registry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Software, Workload
from frameworks.torchtitan.flavors import FLAVORS
from tests.unit.frameworks.legality_workloads import job

LLAMA, QWEN, MIXTURE = (FLAVORS[name].model for name in (("llama3", "8B"), ("qwen3", "32B"), ("qwen3", "30B-A3B")))
PIPELINE = ParallelStrategy(tp=4, pp=4, dp=4, sequence_parallel=True, schedule=Schedule.ONE_F_ONE_B, zero_stage=2)
ALONE = ParallelStrategy(tp=4, dp=16, sequence_parallel=True, zero_stage=3)
GATHERED = replace(ALONE, dp=8, cp=2, cp_algo=CpAlgo.KV_ALLGATHER)
EXPERTS = replace(ALONE, ep=8, dispatcher=Dispatcher.ALLTOALL)
FULL = replace(ALONE, recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)

OPERATORS: dict[str, Any] = {"recompute": Recompute.SELECTIVE, "recompute_modules": RecomputeModule.EVERY_OTHER_MATMUL}
BY_OPERATOR = replace(ALONE, **OPERATORS)


def on_gpus(model: Any = LLAMA, *, fp8: bool = True, compiled: bool = True, packed: float = 1.0, **training: Any) -> Workload:
    made = job(model, family="nvidia", **training)
    rates = {**made.cluster.profile.matmul_flops_per_s, **({"fp8": 6e14} if fp8 else {})}
    profile = replace(made.cluster.profile, matmul_flops_per_s=rates, compute_capability=9.0 if fp8 else 8.0)
    cluster = replace(made.cluster, profile=profile)
    software = Software(
        "fsdp", target="torchtitan@0.2.2", torch_compile=compiled, plain_cross_entropy=not compiled, compiled_loss=compiled
    )
    made = replace(made, training=replace(made.training, mean_squared_length_fraction=packed))
    return replace(made, cluster=cluster, software=software)


def by_layers(strategy: ParallelStrategy, layers: int) -> ParallelStrategy:
    """Recompute of so many layers of every virtual stage."""
    return replace(strategy, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=layers)


def by_rank(*layers: int) -> ParallelStrategy:
    return replace(PIPELINE, recompute=Recompute.FULL, recompute_layers_per_stage=layers)


DENSE, ROUTED = on_gpus(), on_gpus(MIXTURE)
LATENT = on_gpus(FLAVORS["deepseek_v3", "16B"].model)
SCOUT = on_gpus(FLAVORS["llama4", "17bx16e"].model, compiled=False)
ROUTED_ALONE = replace(EXPERTS, tp=1, dp=64, sequence_parallel=False)
_LORA = TrainingTask(Task.LORA, Adapters(8, 16.0, ("linear_qkv",)))
ADAPTED = replace(DENSE, training=replace(DENSE.training, task=_LORA))
ASYNC = DEFAULT_FEATURES | Feature.TP_COMM_OVERLAP
_T = "torchtitan"
TORCHTITAN: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("torchtitan_sharded", _T, DENSE, replace(PIPELINE, tp=8, dp=2), replace(PIPELINE, tp=16, dp=1), ("over 1 of dp 1",)),
    ("torchtitan_zero_stage", _T, DENSE, ALONE, replace(ALONE, zero_stage=1), ("zero_stage 1",)),
    ("torchtitan_shard_groups", _T, DENSE, replace(GATHERED, optimizer_shard_size=8),
     replace(GATHERED, dp=4, cp=4, optimizer_shard_size=2), ("size 2", "cp 4")),
    # A replica of 8 shards x tp 4 = 32 ranks: experts over 8 of them have 4 shards, those over 4 have 8.
    ("torchtitan_replicated_experts", _T, ROUTED, replace(EXPERTS, ep=4, optimizer_shard_size=8),
     replace(EXPERTS, optimizer_shard_size=8), ("ep 8", "over 4 of the 8 ranks")),
    ("torchtitan_expert_degrees", _T, ROUTED, EXPERTS, replace(EXPERTS, etp=2), ("etp 2", "1 or 4")),
    ("torchtitan_expert_degrees", _T, ROUTED, replace(EXPERTS, ep=1, etp=4), replace(EXPERTS, ep=1), ("etp 1", "takes 4")),
    ("torchtitan_expert_world", _T, ROUTED, EXPERTS, replace(EXPERTS, ep=16, optimizer_shard_size=2), ("ep 16", "2 x tp 4")),
    ("torchtitan_sequence", _T, on_gpus(seq_length=4104), replace(ALONE, tp=4), replace(ALONE, tp=8, dp=8), ("4104", "tp 8")),
    ("torchtitan_sequence", _T, on_gpus(seq_length=4104), ALONE, replace(GATHERED, tp=4), ("2 cp 2",)),
    ("torchtitan_sequence_parallel", _T, DENSE, ALONE, replace(ALONE, sequence_parallel=False), ("tp 4",)),
    ("torchtitan_context_parallel", _T, DENSE, GATHERED, replace(GATHERED, cp_algo=CpAlgo.RING), ("ring", "cp 2", "gathers")),
    ("torchtitan_pipeline", _T, on_gpus(QWEN), ALONE, PIPELINE, ("pp 4", "qwen3-32b")),
    ("torchtitan_schedule", _T, DENSE, replace(PIPELINE, schedule=Schedule.GPIPE), replace(PIPELINE, schedule=Schedule.ZB1P),
     ("zb1p", "1f1b, interleaved-1f1b or gpipe")),
    ("torchtitan_micro_batches", _T, on_gpus(global_batch_size=8), replace(PIPELINE, dp=2, tp=8), PIPELINE,
     ("2 micro batches", "needs 4")),
    ("torchtitan_group_size", _T, DENSE, replace(PIPELINE, vpp=2, schedule=Schedule.INTERLEAVED),
     replace(PIPELINE, vpp=2, schedule=Schedule.INTERLEAVED, microbatch_group_size_per_vp_stage=8), ("stage 8", "pp 4")),
    ("torchtitan_dispatcher", _T, ROUTED, EXPERTS, replace(EXPERTS, dispatcher=Dispatcher.ALLGATHER), ("allgather", "alltoall")),
    ("torchtitan_features", _T, DENSE, replace(ALONE, features=ASYNC), replace(ALONE, features=ASYNC | Feature.CUDA_GRAPH),
     ("cuda_graph",)),
    ("torchtitan_async_tp", _T, on_gpus(compiled=False), ALONE, replace(ALONE, features=ASYNC),
     ("tp_comm_overlap", "torch_compile")),
    ("torchtitan_whole_layers", _T, DENSE, FULL,
     replace(ALONE, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM), ("recompute of layernorm",)),
    ("torchtitan_whole_layers", _T, DENSE, FULL, replace(FULL, recompute_num_layers=2), ("groups of 2 layers",)),
    ("recompute_by_operator", _T, DENSE, BY_OPERATOR,
     replace(BY_OPERATOR, recompute_modules=RecomputeModule.EVERY_OTHER_MATMUL | RecomputeModule.LAYERNORM), ("stands alone",)),
    ("recompute_by_operator", "any", ADAPTED, ALONE, BY_OPERATOR, ("adapters add",)),
    ("recompute_by_operator", "any", on_gpus(precision="fp8"), ALONE, BY_OPERATOR, ("matmuls in fp8",)),
    ("recompute_by_operator", "any", LATENT, replace(ROUTED_ALONE, **OPERATORS), replace(EXPERTS, **OPERATORS),
     ("latent attention with tp 4",)),
    ("torchtitan_operators", _T, DENSE, BY_OPERATOR,
     replace(by_rank(2, 2, 2, 2), recompute_modules=RecomputeModule.EVERY_OTHER_MATMUL), ("all layers by operator",)),
    ("torchtitan_operators", _T, ROUTED, EXPERTS, replace(EXPERTS, **OPERATORS), ("compiled in parts",)),
    ("torchtitan_operators", _T, SCOUT, replace(BY_OPERATOR, dispatcher=Dispatcher.ALLTOALL, etp=4),
     replace(EXPERTS, **OPERATORS), ("what experts exchanged",)),
    ("torchtitan_documents", _T, LATENT, ROUTED_ALONE, replace(ROUTED_ALONE, dp=32, cp=2, cp_algo=CpAlgo.KV_ALLGATHER),
     ("cp 2", "within documents")),
    ("torchtitan_documents", _T, on_gpus(FLAVORS["llama3", "8B_varlen"].model), ALONE, GATHERED, ("cp 2", "within documents")),
    ("torchtitan_documents", _T, on_gpus(FLAVORS["llama3", "8B_varlen"].model, packed=0.5), ALONE, GATHERED,
     ("cp 2", "within documents")),
    ("torchtitan_latents", _T, LATENT, ROUTED_ALONE, EXPERTS, ("tp 4", "the whole sequence")),
    # Each third of 32 layers is 10 of them, each second 16; nothing recomputes 11.
    ("torchtitan_recompute", _T, DENSE, by_layers(ALONE, 10), by_layers(ALONE, 11), ("each n-th layer",)),
    ("torchtitan_recompute", _T, DENSE, by_rank(2, 2, 2, 2), by_rank(2, 2, 2, 1), ("each n-th layer",)),
    ("torchtitan_recompute", _T, DENSE, by_rank(4, 4, 4, 4), by_layers(PIPELINE, 4), ("each n-th layer",)),
    ("torchtitan_stages", _T, DENSE, replace(PIPELINE, layer_layout=((7, 9, 9, 7),)),
     replace(PIPELINE, layer_layout=((7, 9, 9, 7),), mtp_before_head=1), ("mtp_before_head",)),
    ("torchtitan_tensor_plan", _T, DENSE, ALONE,
     replace(ALONE, tensor_plan=((((TensorShare(TensorChoice(Tensor.NORM_OUTPUT)),),),),)),
     ("tensor",)),
]  # fmt: skip
JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("torchtitan_task", _T, DENSE, replace(DENSE, training=replace(DENSE.training, task=TrainingTask(Task.SFT))), "not sft"),
    ("torchtitan_precision", _T, DENSE, on_gpus(precision="fp8"), "fp8"),
    ("torchtitan_model", _T, DENSE, on_gpus(replace(LLAMA, num_layers=31)), "llama3 8B, has another num_layers"),
    ("torchtitan_model", _T, DENSE, on_gpus(QWEN, packed=0.5), "attends to whole sequences"),
    ("torchtitan_grouped_experts", _T, ROUTED, on_gpus(MIXTURE, fp8=False), "older than a Hopper GPU"),
    ("torchtitan_stack", _T, DENSE, replace(DENSE, software=replace(DENSE.software, stack="nemo")), "stack nemo"),
]  # fmt: skip

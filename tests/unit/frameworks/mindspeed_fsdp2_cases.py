"""Cases of the rules of MindSpeed-LLM's FSDP2 backend, as those of ``legality_cases``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.tensors import Tensor, TensorChoice, TensorShare
from cost_models.shapes.training_task import Task, TrainingTask
from cost_models.shapes.workload import MoeShape, Software, Workload
from tests.unit.frameworks.legality_workloads import DENSE, job

QWEN = replace(DENSE, name="qwen", qk_layernorm=True, constants=ModelConstants("qwen3"))
LLAMA = replace(QWEN, qk_layernorm=False, constants=ModelConstants("llama"))
MIXTURE = replace(QWEN, moe=MoeShape(64, 6, 1408), constants=ModelConstants("qwen3_moe"))
ALONE = ParallelStrategy(dp=64, zero_stage=3)
RING = replace(ALONE, dp=32, cp=2, cp_algo=CpAlgo.RING)
EXPERTS = replace(ALONE, ep=8, dispatcher=Dispatcher.ALLTOALL)
FULL = replace(ALONE, recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)


def on_npus(model: Any = QWEN, *, compiled: bool = False, **training: Any) -> Workload:
    made = Software("mindspeed-llm-fsdp2", target="mindspeed-llm-fsdp2@master")
    software = replace(made, torch_compile=compiled, plain_cross_entropy=not compiled, compiled_loss=compiled)
    return replace(job(model, **training), software=software)


WORK, ROUTED = on_npus(), on_npus(MIXTURE)
_F = "mindspeed-llm-fsdp2"
FSDP2: list[tuple[str, str, Workload, ParallelStrategy, ParallelStrategy, tuple[str, ...]]] = [
    ("mindspeed_fsdp2_tp", _F, WORK, ALONE, replace(ALONE, tp=2, dp=32), ("tp 2", "fsdp_size")),
    ("mindspeed_fsdp2_pp", _F, WORK, ALONE, replace(ALONE, pp=2, dp=32, schedule=Schedule.ONE_F_ONE_B), ("pp 2",)),
    ("mindspeed_fsdp2_shards", _F, WORK, ALONE, replace(ALONE, optimizer_shard_size=8), ("size 8", "all 64")),
    ("mindspeed_fsdp2_zero_stage", _F, WORK, replace(ALONE, zero_stage=2), replace(ALONE, zero_stage=1), ("zero_stage 1",)),
    ("mindspeed_fsdp2_etp", _F, ROUTED, EXPERTS, replace(EXPERTS, etp=2), ("etp 2",)),
    # 64 devices: 16 divide them, and 48 do not.
    ("mindspeed_fsdp2_expert_shards", _F, ROUTED, replace(EXPERTS, ep=16), replace(EXPERTS, ep=48), ("ep 48", "64 devices")),
    ("mindspeed_fsdp2_cp_model", _F, on_npus(LLAMA), ALONE, RING, ("cp 2", "llama")),
    ("mindspeed_fsdp2_cp_algo", _F, WORK, RING,
     replace(RING, dp=16, cp=4, cp_algo=CpAlgo.HYBRID, ulysses_degree=2), ("hybrid", "cp 4")),
    ("mindspeed_fsdp2_ring", _F, on_npus(seq_length=4098), replace(RING, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), RING,
     ("4098", "2 cp 2")),
    ("mindspeed_fsdp2_dispatcher", _F, ROUTED, EXPERTS, replace(EXPERTS, dispatcher=Dispatcher.ALLGATHER), ("allgather",)),
    ("mindspeed_fsdp2_features", _F, WORK, ALONE, replace(ALONE, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER),
     ("swap_optimizer",)),
    ("mindspeed_fsdp2_tensor_plan", _F, WORK, ALONE,
     replace(ALONE, tensor_plan=((((TensorShare(TensorChoice(Tensor.NORM_OUTPUT)),),),),)), ("tensor",)),
    ("mindspeed_fsdp2_whole_layers", _F, WORK, FULL,
     replace(ALONE, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.LAYERNORM), ("recompute of layernorm",)),
    ("mindspeed_fsdp2_recompute", _F, WORK, replace(FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=5),
     replace(ALONE, recompute=Recompute.FULL, recompute_layers_per_stage=(5,)), ("by rank",)),
    ("mindspeed_fsdp2_stages", _F, WORK, ALONE, replace(ALONE, mtp_before_head=1), ("mtp_before_head",)),
]  # fmt: skip
JOBS: list[tuple[str, str, Workload, Workload, str]] = [
    ("mindspeed_fsdp2_task", _F, WORK, replace(WORK, training=replace(WORK.training, task=TrainingTask(Task.DPO))), "not dpo"),
    ("mindspeed_fsdp2_precision", _F, WORK, on_npus(precision="fp8"), "fp8"),
    ("mindspeed_fsdp2_model", _F, WORK, on_npus(DENSE), "of type unknown"),
    ("mindspeed_fsdp2_model", _F, ROUTED, on_npus(replace(MIXTURE, constants=ModelConstants("mixtral"))), "of type mixtral"),
    ("mindspeed_fsdp2_model", _F, WORK, on_npus(replace(QWEN, mtp_num_layers=1)), "layers of llama, qwen2, qwen3 or qwen3_moe"),
    ("mindspeed_fsdp2_stack", _F, WORK, replace(WORK, software=replace(WORK.software, stack="mindspeed-llm")), "stack mindspeed"),
    ("mindspeed_fsdp2_compile", _F, WORK, on_npus(compiled=True), "compiles neither layers"),
]  # fmt: skip

"""Arguments of MindSpeed-LLM's FSDP2 backend for the parts of a plan [mindspeed-llm, fsdp2/utils/arguments.py]."""

from __future__ import annotations

from pathlib import Path

from cost_models.layer.edges import LOSS_CHUNK_TOKENS
from cost_models.shapes.strategy import CpAlgo, Dispatcher
from cost_models.shapes.switches import Feature
from frameworks.release import read_release
from frameworks.table import SwitchArgument, Table

RELEASE = read_release(Path(__file__).with_name("master.json"))
STACK = "mindspeed-llm-fsdp2"
FSDP, EXPERT_FSDP = "parallel.fsdp_size", "parallel.ep_fsdp_size"
ACCUMULATION, SEQUENCE = "training.gradient_accumulation_steps", "data.cutoff_len"
STAGE, LOADER = "training.stage", "data.data_manager_type"
PATH, MODEL_ID = "model.model_name_or_path", "model.model_id"
RECOMPUTE, RECOMPUTED = "parallel.recompute", "parallel.recompute_modules"
DETERMINISTIC, CHUNKED_LOSS, FIXED_ROUTER = "training.deterministic", "optimization.chunk_loss_size", "optimization.fix_router"
MIXTURE = "qwen3_moe"  # the value of model_id whose layers read the switches of kernels
_OF_A_MIXTURE = (f"{MODEL_ID}={MIXTURE}",)
TABLE = Table(
    columns={
        "dp": FSDP,
        "zero_stage": "parallel.reshard_after_forward",
        "tp": "parallel.tp_size",
        "cp": "parallel.cp_size",
        "cp_algo": "parallel.cp_type",
        "ep": "parallel.ep_size",
        "micro_batch_size": "training.per_device_train_batch_size",
        "dispatcher": "parallel.ep_dispatcher",
        "recompute": RECOMPUTE,
    },
    switches=(
        SwitchArgument(Feature.GRAD_REDUCE_IN_BF16, "parallel.reduce_dtype", on=("bf16",), off="fp32"),
        SwitchArgument(
            Feature.MOE_PERMUTE_FUSION, "parallel.ep_dispatcher", on=("fused",), off="eager", only=("parallel.ep_size>1",)
        ),
        SwitchArgument(Feature.CHUNKED_LOSS, CHUNKED_LOSS, on=(LOSS_CHUNK_TOKENS,), only=(MODEL_ID,)),
        *(
            SwitchArgument(feature, f"optimization.{name}", on=(True,), off=False, only=_OF_A_MIXTURE)
            for feature, name in (
                (Feature.FUSED_NORM, "use_fused_rmsnorm"),
                (Feature.FUSED_ROPE, "use_fused_rotary_pos_emb"),
                (Feature.MOE_GROUPED_GEMM, "moe_grouped_gemm"),
            )
        ),
    ),
    dispatchers={Dispatcher.ALLTOALL: "eager"},
    cp_algos={CpAlgo.RING: "ring", CpAlgo.ULYSSES: "ulysses"},
    schedules={},
    # Attention is PyTorch's fused one, which NPUs have a kernel of CANN for; grouped experts come with a fused activation.
    implied=Feature.FLASH_ATTENTION | Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER | Feature.FUSED_SWIGLU,
)

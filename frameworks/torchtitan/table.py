"""Keys of torchtitan's TOML for the parts of a plan [torchtitan-0.2, job_config.py]."""

from __future__ import annotations

from pathlib import Path

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from documents.sentences import Sentence
from frameworks.facts import Term, Terms, switch
from frameworks.release import read_release
from frameworks.table import SwitchArgument, Table

RELEASE = read_release(Path(__file__).with_name("0.2.json"))
PARALLELISM = "parallelism"
REPLICAS, SHARDS = f"{PARALLELISM}.data_parallel_replicate_degree", f"{PARALLELISM}.data_parallel_shard_degree"
RESHARD = f"{PARALLELISM}.fsdp_reshard_after_forward"
BATCH = "training.global_batch_size"
STAGES = f"{PARALLELISM}.module_fqns_per_model_part"
OPTION = "activation_checkpoint.selective_ac_option"
BY_OPERATOR = RecomputeModule.EVERY_OTHER_MATMUL
COMPILE, COMPILED = "compile.enable", "compile.components"
PARTS = ("model", "loss")  # what is compiled by default
TABLE = Table(
    columns={
        "dp": SHARDS,
        "optimizer_shard_size": REPLICAS,
        "zero_stage": RESHARD,
        "tp": f"{PARALLELISM}.tensor_parallel_degree",
        "pp": f"{PARALLELISM}.pipeline_parallel_degree",
        "cp": f"{PARALLELISM}.context_parallel_degree",
        "ep": f"{PARALLELISM}.expert_parallel_degree",
        "etp": f"{PARALLELISM}.expert_tensor_parallel_degree",
        "schedule": f"{PARALLELISM}.pipeline_parallel_schedule",
        "layer_layout": STAGES,
        "micro_batch_size": "training.local_batch_size",
        "dispatcher": f"{PARALLELISM}.expert_parallel_comm_backend",
        "recompute": "activation_checkpoint.mode",
    },
    switches=(
        SwitchArgument(
            Feature.TP_COMM_OVERLAP, f"{PARALLELISM}.enable_async_tensor_parallel", on=(True,), off=None, only=(COMPILE,)
        ),
    ),
    dispatchers={Dispatcher.ALLTOALL: "standard"},
    cp_algos={CpAlgo.KV_ALLGATHER: "allgather"},
    schedules={
        Schedule.ONE_F_ONE_B: "1F1B",
        Schedule.INTERLEAVED: "Interleaved1F1B",
        Schedule.GPIPE: "GPipe",
    },
    modules={BY_OPERATOR: "op"},
    # Layers have PyTorch's fused attention and grouped matmuls; compilation fuses their other kernels. FSDP gathers and
    # scatters beside the layers, and the runtime of interleaved schedules sends beside other chunks.
    implied=Feature.FLASH_ATTENTION
    | FUSED_KERNELS
    | Feature.MOE_GROUPED_GEMM
    | Feature.OVERLAP_GRAD_REDUCE
    | Feature.OVERLAP_PARAM_GATHER
    | Feature.OVERLAP_P2P,
)

TERMS: Terms = {
    f"{PARALLELISM}.enable_async_tensor_parallel": switch(Feature.TP_COMM_OVERLAP),
    COMPILE: Term(
        lambda w, b: w.software.torch_compile,
        "torch_compile",
        lambda w, s: Sentence("torch_compile {}", str(w.software.torch_compile).lower()),
        of_job=True,
    ),
}

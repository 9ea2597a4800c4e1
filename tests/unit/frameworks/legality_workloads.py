"""Small and large jobs that the tests of legality and launch arguments share."""

from __future__ import annotations

from dataclasses import replace

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.workload import Cluster, MlaShape, ModelShape, MoeShape, Software, TrainingJob, Workload
from hardware_profiles.schema import HardwareProfile, NetworkTier, Status, Wiring

NODE = NetworkTier("node", Wiring.MESH, 8, 128e9, 15e-6)
FABRIC = NetworkTier("fabric", Wiring.FABRIC, None, 20e9, 20e-6)


def profile(family: str = "ascend") -> HardwareProfile:
    """Eight devices a node."""
    return HardwareProfile(
        name=f"test-{family}",
        title="for tests",
        family=family,
        status=Status.UNVALIDATED,
        device=f"{family} device",
        matmul_flops_per_s={"bf16": 3e14},
        achievable_matmul_flops_per_s={"bf16": 2e14},
        vector_flops_per_s=1e13,
        num_matmul_cores=20,
        hbm_bytes=64e9,
        usable_hbm_bytes=60e9,
        hbm_bytes_per_s=1.6e12,
        host_link_bytes_per_s=2e10,
        context_bytes=2e9,
        communicator_bytes=4e8,
        tiers=(NODE, FABRIC),
        devices_per_node=8,
        sequential_tiers=True,
    )


DENSE = ModelShape(
    name="dense-8b",
    num_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=14336,
    vocab_size=128256,
)
MIXTURE = replace(
    DENSE,
    name="mixture",
    num_layers=24,
    moe=MoeShape(num_experts=64, top_k=6, expert_ffn_hidden_size=1408, num_shared_experts=2, shared_expert_ffn_hidden_size=2816),
)
PANGU = ModelShape(
    name="pangu-ultra-moe-718b",
    num_layers=61,
    hidden_size=7680,
    num_attention_heads=128,
    num_query_groups=128,
    kv_channels=192,
    ffn_hidden_size=18432,
    vocab_size=153600,
    mtp_num_layers=1,
    sandwich_norm=True,
    mla=MlaShape(1536, 512, 128, 64, 128),
    moe=MoeShape(256, 8, 2048, num_shared_experts=1, shared_expert_ffn_hidden_size=2048, num_leading_dense_layers=3),
)
LATENT = replace(MIXTURE, name="latent", num_query_groups=32, kv_channels=192, mla=MlaShape(1536, 512, 128, 64, 128))


def job(
    model: ModelShape = DENSE,
    num_devices: int = 64,
    *,
    seq_length: int = 4096,
    global_batch_size: int = 256,
    precision: str = "bf16",
    fp8_recipe: str | None = None,
    family: str = "ascend",
) -> Workload:
    """A workload; the defaults suit ``plan``."""
    return Workload(
        model,
        TrainingJob(seq_length, global_batch_size, precision, fp8_recipe),
        Cluster(profile(family), num_devices),
        Software("mindspeed-llm"),
    )


DENSE_PLAN = ParallelStrategy(tp=4, pp=4, dp=4, vpp=2, sequence_parallel=True, schedule=Schedule.INTERLEAVED, micro_batch_size=1)
MIXTURE_PLAN = ParallelStrategy(
    tp=2, pp=2, dp=16, ep=32, sequence_parallel=True, schedule=Schedule.ONE_F_ONE_B, dispatcher=Dispatcher.ALLTOALL
)
OVER_HEADS = job(replace(DENSE, qk_layernorm=True, constants=replace(DENSE.constants, qk_norm_over_heads=True)))
PANGU_JOB = job(PANGU, 6144, seq_length=8192, global_batch_size=6144)
PANGU_PLAN = ParallelStrategy(
    tp=8,
    pp=16,
    dp=48,
    ep=32,
    vpp=2,
    micro_batch_size=2,
    sequence_parallel=True,
    schedule=Schedule.INTERLEAVED,
    dispatcher=Dispatcher.HIERARCHICAL,
)

"""Workloads and constants with round numbers, for tests that work their expectations out by hand."""

from dataclasses import fields, replace
from typing import Any

from cost_models.constants import CONSTANTS, Constants
from cost_models.layer.communication import network_of
from cost_models.layer.compute import Device
from cost_models.network.collectives import send_recv_s
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import LayerKeys, layer_keys
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Cluster, MlaShape, ModelShape, MoeShape, Software, TrainingJob, Workload
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from tests.networks import ascend_a2

# Every efficiency 1, every fixed time 0, everything that can hide hidden: what is left is the formulas.
NEUTRAL = {
    "matmul_fraction": 1.0,
    "attention_forward_fraction": 0.5,
    "attention_half_length": 0.0,
    "portable_attention_fraction": 0.5,
    "portable_attention_half_length": 0.0,
    "triton_attention_fraction": 0.25,
    "triton_attention_half_length": 0.0,
    "attention_backward_fraction": 1.0,
    "score_bytes": 10.0,
    "vector_fraction": 1.0,
    "quantise_bytes": 6.0,
    "wave_loss": 0.0,
    "node_doubling_fraction": 0.0,
    "depth_half": 0.0,
    "kernel_s": 0.0,
    "host_kernel_s": 0.0,
    "graph_dispatch_factor": 0.0,
    "stock_blackwell_factor": 1.0,
    "recent_eager_factor": 1.0,
    "early_graph_factor": 1.0,
    "host_micro_batch_s": 0.0,
    "host_moe_sync_s": 0.0,
    "intra_fraction": 1.0,
    "inter_fraction": 1.0,
    "collective_latency_s": 0.0,
    "fused_tp_exposed_fraction": 0.5,
    "overlapped_tp_exposed_fraction": 0.5,
    "backward_tp_exposed_fraction": 1.0,
    "cp_factor": 1.0,
    "expert_comm_factor": 1.0,
    "permute_passes": 6.0,
    "cross_entropy_bytes": 10.0,
    "accumulation_bytes": 0.0,
    "cast_bytes": 0.0,
    "dp_exposed_fraction": 0.0,
    "hidden_stretch_fraction": 0.0,
    "p2p_exposed_fraction": 0.0,
    "step_overhead_s": 0.0,
    "allocator_fraction": 0.0,
}

DENSE = ModelShape(
    name="dense",
    num_layers=8,
    hidden_size=1024,
    num_attention_heads=8,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=4096,
    vocab_size=32000,
)
GROUPED = replace(DENSE, name="grouped", num_query_groups=2)
SPARSE = replace(
    DENSE,
    name="sparse",
    moe=MoeShape(
        num_experts=16,
        top_k=2,
        expert_ffn_hidden_size=512,
        num_shared_experts=1,
        shared_expert_ffn_hidden_size=512,
        num_leading_dense_layers=2,
    ),
)
LATENT = replace(
    SPARSE,
    name="latent",
    mla=MlaShape(q_lora_rank=256, kv_lora_rank=128, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64),
)


def constants(**values: float) -> Constants:
    """Neutral constants with some replaced. A constant that this file does not know keeps its prior."""
    return Constants(**{c.name: NEUTRAL.get(c.name, c.ascend) for c in CONSTANTS}).with_values(values)


def workload(model: ModelShape = DENSE, *, cluster: Cluster | None = None, **values: Any) -> Workload:
    """2,048 tokens a sequence, 64 sequences a step, Megatron; keywords go to the training job or the software."""
    training = {"seq_length": 2048, "global_batch_size": 64}
    software: dict[str, Any] = {"stack": "megatron-lm"}
    for name, value in values.items():
        (training if name in {f.name for f in fields(TrainingJob)} else software)[name] = value
    return Workload(model, TrainingJob(**training), cluster or ascend_a2(), Software(**software))


def batch(**columns: Any) -> StrategyBatch:
    """One strategy."""
    return StrategyBatch.of([ParallelStrategy(**columns)])


def keys(**columns: Any) -> LayerKeys:
    """The layer key of one strategy."""
    return layer_keys(workload(), batch(**columns))[0]


def device(job: Workload, **values: float) -> Device:
    return Device.of(job, constants(**values))


def network(job: Workload, **values: float) -> Network:
    return network_of(job, constants(**values))


def priced(job: Workload, *strategies: ParallelStrategy, breakdown: bool = True, **values: float) -> Estimate:
    """Estimate under neutral constants."""
    return estimate(job, StrategyBatch.of(strategies), constants(**values), breakdown=breakdown)


def hop_s(job: Workload, strategy: ParallelStrategy, moved_bytes: float) -> float:
    """One pipeline hop of the strategy, without constants."""
    stride = strategy.tp * strategy.cp * strategy.dp
    return float(send_recv_s(moved_bytes, strategy.pp, stride, network(job)))

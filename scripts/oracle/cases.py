"""The matrix: small models, plans, and the step that is run. Both sides read the same fields, those of a job file."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]
RELEASES = ("0.12", "0.19")
EVERY = ("0.12.0", *RELEASES)  # 0.12.0 multiplies the outputs of experts by their weights, later releases the activations
ROUTER_IN_FP32_FROM = 32  # experts, as our launch files set it

DENSE = {
    "name": "tiny",
    "num_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_query_groups": 4,
    "ffn_hidden_size": 1408,
    "vocab_size": 2048,
    "gated_linear_unit": True,
}


APART = {"overlap_grad_reduce": False, "overlap_param_gather": False, "moe_permute_fusion": False}


def case(
    name: str, model: dict[str, Any] | None = None, *, devices: int | None = None, micro_batches: int = 1, **plan: Any
) -> Case:
    """A case on as many devices as its plan needs; ``plan`` holds fields of a strategy. Nothing overlaps unless it says so."""
    outer = {"releases": RELEASES} | {key: plan.pop(key) for key in ("layout", "peak", "releases", "stack") if key in plan}
    return {
        "name": name,
        "model": DENSE | (model or {}),
        "strategy": {"tp": 1, "pp": 1, "micro_batch_size": 1} | plan | {"switches": APART | plan.get("switches", {})},
        "num_devices": devices or plan.get("tp", 1) * plan.get("pp", 1),
        "seq_length": 256,
        "num_micro_batches": micro_batches,
        "precision": "bf16",
        **outer,
    }


def selective(*modules: str) -> dict[str, Any]:
    return {"granularity": "selective", "modules": list(modules)}


FULL = {"granularity": "full", "method": "uniform", "num_layers": 1}
MLA = {
    "num_query_groups": 8,
    "mla": {"q_lora_rank": 192, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64},
}
LEARNED = {"gated_linear_unit": False, "num_query_groups": 8, "learned_positions": True}
DEEP = {"num_layers": 8}
TIED = {"tied_embeddings": True}
MTP = {"mtp_num_layers": 1}
QUERY_NORMS = {"qk_layernorm": True}
EXPERTS = {"num_experts": 32, "top_k": 2, "expert_ffn_hidden_size": 384}  # from 32 on, routers compute in FP32
MOE = {"moe": EXPERTS}
FEW = {"moe": EXPERTS | {"num_experts": 8}}
SHARED = {"moe": EXPERTS | {"num_shared_experts": 1, "shared_expert_ffn_hidden_size": 384}}
MIXED = {"moe": EXPERTS | {"num_leading_dense_layers": 2}} | DEEP


def switched(**switches: bool) -> dict[str, Any]:
    return {"switches": switches}


OVERLAPPED = switched(overlap_grad_reduce=True, overlap_param_gather=True)
DENSE_CASES = [
    case("dense", devices=2),
    case("dense, 2 sequences", micro_batch_size=2),
    case("dense, FP32", **switched(flash_attention=False)) | {"precision": "fp32"},
    case("GELU and layer norm", LEARNED),
    case("tp 2", tp=2, devices=4),
    case("tp 2 without sequence parallelism", tp=2, sequence_parallel=False),
    case("tp 4", tp=4, micro_batches=2),
    case("tp 4 on 2 heads of keys", {"num_query_groups": 2}, tp=4, releases=("0.19",)),
    case("norms of queries and keys", QUERY_NORMS),
    case("norms of queries and keys, tp 2", QUERY_NORMS, tp=2),
    case("tied tables", TIED, tp=2),
    case("MTP", MTP),
    case("MTP, tp 2", MTP, tp=2),
    case("MTP, tp 2 without sequence parallelism", MTP, tp=2, sequence_parallel=False),
]
KERNEL_CASES = [
    case("SwiGLU not fused", **switched(fused_swiglu=False)),
    case("rotary embedding not fused", **switched(fused_rope=False)),
    case("attention not fused", **switched(flash_attention=False)),
    case("attention not fused, tp 2", tp=2, **switched(flash_attention=False)),
]
MLA_CASES = [
    case("latent attention", MLA),
    case("latent attention, tp 2", MLA, tp=2, micro_batches=2),
    case("latent attention, tp 2 without sequence parallelism", MLA, tp=2, sequence_parallel=False, releases=("0.19",)),
    case("latent attention, recompute of up-projections", MLA, tp=2, recompute=selective("mla_up_proj"), releases=("0.19",)),
]
RECOMPUTE_CASES = [
    case("full recompute", recompute=FULL),
    case("full recompute, tp 2", tp=2, recompute=FULL),
    case("recompute of the core of attention", recompute=selective("core_attn")),
    case("recompute of the core, learned positions", LEARNED, recompute=selective("core_attn")),
    case("recompute of the core, not fused", recompute=selective("core_attn"), **switched(flash_attention=False)),
    case("recompute of MLPs", recompute=selective("mlp")),
    case("recompute of MLPs, tp 2", tp=2, recompute=selective("mlp")),
    case("recompute of norms", recompute=selective("layernorm")),
    case("recompute of norms, tp 2", tp=2, recompute=selective("layernorm")),
    case("recompute of norms, latent attention", MLA, recompute=selective("layernorm")),
    case("recompute of norms, latent attention, tp 4", MLA, tp=4, recompute=selective("layernorm"), releases=("0.19",)),
]
MOE_CASES = [
    case("mixture", MOE, releases=EVERY),
    case("mixture, router in 16 bits", FEW, releases=EVERY),
    case("mixture, ep 2", MOE, devices=4, ep=2, releases=EVERY),
    case("mixture, ep 4", MOE, devices=4, ep=4, micro_batches=2),
    case("mixture, all-gather, ep 2", MOE, devices=2, ep=2, moe_dispatcher="allgather"),
    case("mixture, all-gather, ep 4", MOE, devices=4, ep=4, moe_dispatcher="allgather"),
    case("mixture, all-gather, router in 16 bits", FEW, devices=4, ep=4, moe_dispatcher="allgather"),
    case("mixture, tp 2 ep 2", MOE, tp=2, devices=4, ep=2, releases=EVERY),
    case("mixture, tp 2 ep 4", MOE, tp=2, devices=4, ep=4),
    case("mixture, tp 2 etp 2", MOE, tp=2, etp=2),
    case("mixture, tp 2 etp 2 ep 2", MOE, tp=2, etp=2, ep=2, devices=4),
    case("mixture, all-gather, tp 2 ep 4", MOE, tp=2, devices=4, ep=4, moe_dispatcher="allgather"),
    case("shared experts, ep 2", SHARED, devices=2, ep=2),
    case("shared experts, tp 2 ep 2", SHARED, tp=2, devices=4, ep=2),
    case("dense layers first", MIXED, devices=2, ep=2),
    case("norms of queries and keys, mixture", QUERY_NORMS | MOE, devices=2, ep=2),
    case("latent attention, mixture", MLA | SHARED, devices=2, ep=2),
    case("recompute of the mixture", MOE, devices=2, ep=2, recompute=selective("moe")),
    case("recompute of the mixture, shared experts, tp 2", SHARED, tp=2, devices=4, ep=2, recompute=selective("moe")),
    case("recompute of norms, mixture", MOE, devices=2, ep=2, recompute=selective("layernorm"), releases=("0.19",)),
    case("recompute of norms, dense layers first", MIXED, devices=2, ep=2, recompute=selective("layernorm"), releases=("0.19",)),
    case("shared experts, overlapped, ep 2", SHARED, devices=2, ep=2, **switched(moe_shared_expert_overlap=True)),
    case("shared experts, overlapped, tp 2 ep 2", SHARED, tp=2, devices=4, ep=2, **switched(moe_shared_expert_overlap=True)),
    case("shared experts, overlapped, tp 4 ep 4", SHARED, tp=4, devices=4, ep=4, **switched(moe_shared_expert_overlap=True)),
    case(
        "shared experts, overlapped, recompute of norms, tp 2 ep 2",
        SHARED,
        tp=2,
        devices=4,
        ep=2,
        recompute=selective("layernorm"),
        releases=("0.19",),
        **switched(moe_shared_expert_overlap=True),
    ),
    case("MTP, mixture", MTP | MOE, devices=2, ep=2),
]
PIPELINE_CASES = [
    case("tp 2 pp 2", tp=2, pp=2, devices=8, micro_batches=4),
    case("tp 2 pp 2 without sequence parallelism", tp=2, pp=2, sequence_parallel=False, micro_batches=4),
    case("pp 4", DEEP, pp=4, micro_batches=8),
    case("pp 2 vpp 2", DEEP, pp=2, vpp=2, micro_batches=6),
    case("pp 4 vpp 2", DEEP, pp=4, vpp=2, micro_batches=8),
    case("pp 4 vpp 2, groups of 8", DEEP, pp=4, vpp=2, micro_batches=16, microbatch_group_size_per_vp_stage=8),
    case(
        "pp 4, layout",
        DEEP | {"num_layers": 6},
        pp=4,
        micro_batches=4,
        layout="Et|tt|tt|tL",
        layer_layout=[[1, 2, 2, 1]],
        releases=("0.19",),
    ),
    case(
        "pp 2 vpp 2, layout",
        {"num_layers": 6},
        pp=2,
        vpp=2,
        micro_batches=4,
        layout="Ett|t|tt|tL",
        layer_layout=[[2, 1], [2, 1]],
        releases=("0.19",),
    ),
    case("pp 2, tied tables", TIED, pp=2, micro_batches=4),
    case("pp 4, tied tables", TIED, pp=4, tp=2, micro_batches=4),
    case("pp 2, MTP", MTP, pp=2, micro_batches=4),
    case("pp 2 ep 2", MOE, pp=2, ep=2, devices=8, micro_batches=4),
]
DATA_CASES = [
    case("ZeRO-0, 4 replicas", devices=4, zero_stage=0),
    case("ZeRO-1, 4 replicas", devices=4),
    case("ZeRO-1, 4 replicas, overlapped", devices=4, **OVERLAPPED),
    case("ZeRO-1, 4 replicas, gradients in 16 bits", devices=4, **switched(grad_reduce_in_bf16=True)),
    case("ZeRO-1, ep 2, 4 replicas, overlapped", MOE, devices=4, ep=2, **OVERLAPPED),
]
FSDP = {"stack": "fsdp", "releases": ("transformers",), "zero_stage": 3}
FSDP_CASES = [
    case("Llama", devices=2, **FSDP),
    case("Llama, 4 replicas, 2 micro batches", devices=4, micro_batches=2, **FSDP),
    case("Llama, 2 sequences", devices=2, micro_batch_size=2, **FSDP),
    case("Llama, ZeRO-2", devices=2, **FSDP | {"zero_stage": 2}),
    case("Llama, ZeRO-2, 4 replicas, 2 micro batches", devices=4, micro_batches=2, **FSDP | {"zero_stage": 2}),
    case("Llama, full recompute", devices=2, recompute=FULL, **FSDP),
    case("Qwen3", QUERY_NORMS, devices=2, **FSDP),
    case("Qwen3, full recompute", QUERY_NORMS, devices=2, recompute=FULL, **FSDP),
]
SECTIONS = {
    "Dense layers": DENSE_CASES,
    "Without fused kernels": KERNEL_CASES,
    "Latent attention": MLA_CASES,
    "Recompute": RECOMPUTE_CASES,
    "Mixtures": MOE_CASES,
    "Pipelines": PIPELINE_CASES,
    "Data parallelism": DATA_CASES,
    "transformers under FSDP2": FSDP_CASES,
}
CASES = [each for section in SECTIONS.values() for each in section]

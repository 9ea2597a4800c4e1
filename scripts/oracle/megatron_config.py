"""The configuration of Megatron-Core for a case. The framework must be importable."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from scripts.oracle.cases import ROUTER_IN_FP32_FROM, Case

MODULES = {"mlp_act": "moe_act"}  # recompute modules that Megatron calls otherwise


def takes(function: Any, **values: Any) -> dict[str, Any]:
    """The arguments that this release has."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in known}


def config_of(case: Case) -> Any:
    model, plan, switches = case["model"], case["strategy"], case["strategy"].get("switches", {})
    tp, vpp = plan.get("tp", 1), plan.get("vpp", 1)
    moe, mla, dtype = model.get("moe"), model.get("mla"), torch.float32 if case["precision"] == "fp32" else torch.bfloat16
    gated = model["gated_linear_unit"]
    values: dict[str, Any] = {
        "num_layers": model["num_layers"],
        "hidden_size": model["hidden_size"],
        "num_attention_heads": model["num_attention_heads"],
        "num_query_groups": model["num_query_groups"],
        "ffn_hidden_size": model["ffn_hidden_size"],
        "normalization": "RMSNorm" if gated else "LayerNorm",
        "gated_linear_unit": gated,
        "activation_func": torch.nn.functional.silu if gated else torch.nn.functional.gelu,
        "bias_activation_fusion": gated and switches.get("fused_swiglu", True),
        "qk_layernorm": bool(model.get("qk_layernorm") or mla),
        "add_bias_linear": False,
        "tensor_model_parallel_size": tp,
        "pipeline_model_parallel_size": plan.get("pp", 1),
        "virtual_pipeline_model_parallel_size": vpp if vpp > 1 else None,
        "expert_model_parallel_size": plan.get("ep", 1),
        "expert_tensor_parallel_size": plan.get("etp", 1),
        "sequence_parallel": plan.get("sequence_parallel", tp > 1),
        "bf16": dtype is torch.bfloat16,
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "use_cpu_initialization": True,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "gradient_accumulation_fusion": False,
        "masked_softmax_fusion": False,
        "persist_layer_norm": False,
        "bias_dropout_fusion": True,
        "apply_rope_fusion": False,
        "deallocate_pipeline_outputs": True,
        "batch_p2p_comm": True,
        "mtp_num_layers": model.get("mtp_num_layers") or None,
        "mtp_loss_scaling_factor": 0.1,
        "pipeline_model_parallel_layout": case.get("layout"),
    }
    if "microbatch_group_size_per_vp_stage" in plan:
        values["microbatch_group_size_per_vp_stage"] = plan["microbatch_group_size_per_vp_stage"]
    recompute = plan.get("recompute")
    if recompute and recompute["granularity"] == "full":
        values |= {
            "recompute_granularity": "full",
            "recompute_method": recompute["method"],
            "recompute_num_layers": recompute["num_layers"],
        }
    elif recompute:
        names = [MODULES.get(name, name) for name in recompute["modules"]]
        values |= {"recompute_granularity": "selective", "recompute_modules": names}
    if mla:
        values |= {
            "q_lora_rank": mla["q_lora_rank"] or None,
            "kv_lora_rank": mla["kv_lora_rank"],
            "qk_head_dim": mla["qk_nope_head_dim"],
            "qk_pos_emb_head_dim": mla["qk_rope_head_dim"],
            "v_head_dim": mla["v_head_dim"],
            "rope_type": "rope",
        }
    if moe:
        values |= {
            "num_moe_experts": moe["num_experts"],
            "moe_router_topk": moe["top_k"],
            "moe_ffn_hidden_size": moe["expert_ffn_hidden_size"],
            "moe_shared_expert_intermediate_size": moe.get("shared_expert_ffn_hidden_size") or None,
            "moe_layer_freq": [int(i >= moe.get("num_leading_dense_layers", 0)) for i in range(model["num_layers"])],
            "moe_token_dispatcher_type": plan.get("moe_dispatcher", "alltoall"),
            "moe_router_load_balancing_type": "none",
            "moe_router_dtype": "fp32" if moe["num_experts"] >= ROUTER_IN_FP32_FROM else None,
            "moe_grouped_gemm": False,
            "moe_shared_expert_overlap": switches.get("moe_shared_expert_overlap", False),
        }
    kind = MLATransformerConfig if mla else TransformerConfig
    return kind(**takes(kind, **{name: value for name, value in values.items() if value is not None}))

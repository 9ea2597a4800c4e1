"""Small models whose layers torchtitan ran, as the oracles under scripts/oracle state them."""

from __future__ import annotations

from typing import Any

from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape

EXPERT_WIDTH = 128
GATE_AND_UP = {256: 704, 512: 1408}  # of Llama, by channels: 8/3 of them, in multiples of 64
LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def model_of(case: dict[str, Any]) -> ModelShape:
    """The model of a line of an oracle."""
    given, experts = case["args"], case.get("experts")
    shared = EXPERT_WIDTH * experts["num_shared_experts"] if experts else 0
    return ModelShape(
        name="small",
        num_layers=given["n_layers"],
        hidden_size=given["dim"],
        num_attention_heads=given["n_heads"],
        num_query_groups=given.get("n_kv_heads", given["n_heads"]),
        kv_channels=given.get("head_dim", given["dim"] // given["n_heads"]),
        ffn_hidden_size=given.get("hidden_dim", given.get("inter_dim", GATE_AND_UP[given["dim"]])),
        vocab_size=given["vocab_size"],
        qk_layernorm=case["family"] == "qwen3",
        mla=MlaShape(**{name: given[name] for name in LATENT}) if case["family"] == "deepseek_v3" else None,
        moe=experts
        and MoeShape(
            num_experts=experts["num_experts"],
            top_k=experts["top_k"],
            expert_ffn_hidden_size=EXPERT_WIDTH,
            num_shared_experts=experts["num_shared_experts"],
            shared_expert_ffn_hidden_size=shared,
        ),
    )

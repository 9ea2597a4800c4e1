"""The config.json of a model, which MindFormers reads in addition to its YAML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cost_models.shapes.workload import ModelShape
from scripts.conformance.cases import IMPORTED, Model

ARCHITECTURES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
}


def config_json(given: Model, shape: ModelShape) -> dict[str, Any] | None:
    """The imported file, or the published one of the preset; otherwise the model's own dimensions under the same keys."""
    path = Path(given.source) if given.is_imported else IMPORTED / f"{given.name}.json"
    if path.is_file():
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return read
    return _from_shape(shape) if shape.constants.model_type else None


def _from_shape(shape: ModelShape) -> dict[str, Any]:
    constants = shape.constants
    made: dict[str, Any] = {
        "model_type": constants.model_type,
        "architectures": [ARCHITECTURES.get(constants.model_type, "")],
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.ffn_hidden_size,
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_query_groups,
        "head_dim": shape.kv_channels,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.tied_embeddings,
        "attention_bias": shape.attention_bias,
        "hidden_act": constants.activation or "silu",
        "rms_norm_eps": constants.norm_epsilon,
        "rope_theta": constants.rotary_base,
        "max_position_embeddings": constants.max_position_embeddings,
        "num_nextn_predict_layers": shape.mtp_num_layers or None,
    }
    if shape.mla is not None:
        made |= {**vars(shape.mla), "q_lora_rank": shape.mla.q_lora_rank or None}
        del made["head_dim"]
    if shape.moe is not None:
        moe, router = shape.moe, constants.router
        made |= {
            "num_experts_per_tok": moe.top_k,
            "moe_intermediate_size": moe.expert_ffn_hidden_size,
            "n_shared_experts": moe.num_shared_experts or None,
            "first_k_dense_replace": moe.num_leading_dense_layers or None,
            "norm_topk_prob": router.normalize_topk,
            "scoring_func": router.score_function if shape.mla is not None else None,
            "routed_scaling_factor": router.topk_scale,
            "num_experts" if constants.model_type.startswith("qwen") else "n_routed_experts": moe.num_experts,
        }
    return {name: value for name, value in made.items() if value is not None or name == "q_lora_rank"}

"""Facts of the user's model, expected and as a framework read them, under the same names.

Names are Megatron's if it has one. A fact that the model does not state is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cost_models.shapes.workload import ModelShape

Facts = dict[str, Any]
Parsed = Mapping[str, Any]
ACTIVATIONS = {
    "swiglu": "silu",
    "swish": "silu",
    "gelu_tanh": "gelu",
    "fast_gelu": "gelu",
    "squared_relu": "relu2",
    "fusedswiglu": "silu",
}
LAYER_NORMS = {"RMSNorm": "rmsnorm", "FusedRMSNorm": "rmsnorm", "LayerNorm": "layernorm", "FusedLayerNorm": "layernorm"}


def expected(model: ModelShape) -> Facts:
    """Facts of a job's model that a framework must read."""
    constants = model.constants
    scaling = constants.rope_scaling
    facts: Facts = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "untied_embeddings": not model.tied_embeddings,
        "gated_linear_unit": model.gated_linear_unit,
        "vocabulary": model.vocab_size,
        "learned_positions": model.learned_positions,
        "qkv_bias": model.attention_bias
        or (
            not model.gated_linear_unit and model.moe is None and not model.hybrid_layer_pattern
        ),  # the modules of GPT-3 have all
        "qk_layernorm": model.qk_layernorm or model.mla is not None,  # latents are always normalized
        "mtp_num_layers": model.mtp_num_layers,
        "normalization": constants.normalization,
        "norm_epsilon": constants.norm_epsilon,
        "activation": ACTIVATIONS.get(constants.activation or "", constants.activation),
        "attention_softcap": constants.attention_softcap,
        "logit_softcap": constants.logit_softcap,
        "attention_sinks": constants.attention_sinks or None,
        "sandwich_norm": model.sandwich_norm or None,
        "attention_scale": constants.attention_scale,
    }
    if model.has_dense_mlp:
        facts["ffn_hidden_size"] = model.ffn_hidden_size
    if not (model.learned_positions or model.no_positions):
        facts |= {
            "rotary_base": constants.rotary_base,
            "rotary_fraction": constants.rotary_fraction,
            "rotary_interleaved": constants.rotary_interleaved,
        }
        if scaling is not None or constants.rotary_base is not None:
            facts["rope_scaling"] = [] if scaling is None else [scaling.kind, float(scaling.factor)]
        if scaling is not None:
            facts |= {"mscale": scaling.mscale, "mscale_all_dim": scaling.mscale_all_dim}
            facts |= {name: getattr(scaling, name) for name in ("beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor")}
    return {
        name: value
        for name, value in (facts | _attention(model) | _experts(model) | _single_blocks(model)).items()
        if value is not None
    }


def _attention(model: ModelShape) -> Facts:
    if model.mla is None:
        return {"num_query_groups": model.num_query_groups, "kv_channels": model.kv_channels}
    return {
        "q_lora_rank": model.mla.q_lora_rank or None,
        "kv_lora_rank": model.mla.kv_lora_rank,
        "qk_nope_head_dim": model.mla.qk_nope_head_dim,
        "qk_rope_head_dim": model.mla.qk_rope_head_dim,
        "v_head_dim": model.mla.v_head_dim,
    }


def _single_blocks(model: ModelShape) -> Facts:
    local = model.local_attention
    if not model.hybrid_layer_pattern:
        return {}
    facts: Facts = {"layers_by_symbol": model.hybrid_layer_pattern, "no_positions": model.no_positions}
    if local is None:
        return facts
    heads, groups = [local.num_value_heads, local.value_head_dim], [local.num_key_heads, local.key_head_dim]
    return facts | {"state_space_heads": heads, "state_space_groups": groups}


def _experts(model: ModelShape) -> Facts:
    moe, router = model.moe, model.constants.router
    if moe is None:
        return {"num_experts": 0}
    return {
        "num_experts": moe.num_experts,
        "router_topk": moe.top_k,
        "expert_ffn_hidden_size": moe.expert_ffn_hidden_size,
        "shared_expert_size": moe.shared_expert_ffn_hidden_size,
        "moe_layers": [int(is_moe) for is_moe in model.moe_layers()],
        "router_groups": [moe.num_groups, moe.group_topk] if moe.num_groups > 1 else [],
        "score_function": router.score_function,
        "normalize_topk": router.normalize_topk if moe.top_k > 1 else None,
        "topk_scale": router.topk_scale,
        "expert_bias": router.expert_bias,
        "shared_expert_gate": router.shared_expert_gate if moe.num_shared_experts else None,
    }


def of_megatron(found: Mapping[str, Parsed], *, mindspeed: bool) -> Facts:
    """Facts from validated arguments, their configuration, and the arguments of the model."""
    args, config, built = found["arguments"], found.get("config", {}), found.get("built", {})
    noops = _noops(args)
    facts: Facts = {
        "num_layers": args["num_layers"] - len(noops),
        "untied_embeddings": bool(args.get("untie_embeddings_and_output_weights")),
        "gated_linear_unit": bool(config.get("gated_linear_unit", args.get("swiglu"))),
        "vocabulary": args.get("padded_vocab_size"),
        "learned_positions": args.get("position_embedding_type") == "learned_absolute",
        "qkv_bias": bool(args.get("add_qkv_bias") or args.get("add_bias_linear")),
        "qk_layernorm": bool(args.get("qk_layernorm") and built.get("attention_norms", True)),
        "mtp_num_layers": args.get("mtp_num_layers") or 0,
        "normalization": LAYER_NORMS.get(args.get("normalization", "")),
        "activation": _activation(config.get("activation_func")),
        "rotary_fraction": args.get("rotary_percent"),
        "rotary_interleaved": bool(args.get("rotary_interleaved") or args.get("use_glm_rope")),
        "attention_softcap": args.get("attn_logit_softcapping"),
        "logit_softcap": args.get("output_logit_softcapping") or args.get("final_logit_softcapping"),
        "attention_sinks": args.get("softmax_type") == "learnable",
        "sandwich_norm": bool(args.get("post_norm") or args.get("sandwich_norm")),
        "attention_scale": args.get("query_pre_attn_scalar") or args.get("softmax_scale"),
        "num_query_groups": args["num_query_groups"] if args.get("group_query_attention") else args["num_attention_heads"],
        "qk_nope_head_dim": args.get("qk_head_dim"),
        "qk_rope_head_dim": args.get("qk_pos_emb_head_dim"),
    }
    for name in ("hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels", "norm_epsilon", "rotary_base"):
        facts[name] = args.get(name)
    if facts["norm_epsilon"] is None:
        facts["norm_epsilon"] = args.get("layernorm_epsilon")  # the name of newer releases
    for name in ("q_lora_rank", "kv_lora_rank", "v_head_dim"):
        facts[name] = args.get(name)
    if args.get("hybrid_layers"):
        facts |= {
            "layers_by_symbol": args["hybrid_layers"],
            "no_positions": args.get("position_embedding_type") == "none",
            "state_space_heads": [config.get("mamba_num_heads"), config.get("mamba_head_dim")],
            "state_space_groups": [config.get("mamba_num_groups"), config.get("mamba_state_dim")],
        }
    return facts | _scaling_of_megatron(args, config, mindspeed=mindspeed) | _experts_of_megatron(args, noops)


def _scaling_of_megatron(args: Parsed, config: Parsed, *, mindspeed: bool) -> Facts:
    latent = bool(args.get("multi_latent_attention"))
    if mindspeed and args.get("rope_scaling_type"):
        kind, factor = args["rope_scaling_type"], args.get("rope_scaling_factor") or 1.0
        scale = {"mscale": args.get("rope_scaling_mscale"), "mscale_all_dim": args.get("rope_scaling_mscale_all_dim")}
        scale |= {name: args.get(name) for name in ("low_freq_factor", "high_freq_factor")}
        betas = {name: args.get(name) for name in ("beta_fast", "beta_slow")}
        return {"rope_scaling": [kind, float(factor)], **scale, **betas}
    if not mindspeed and latent and config.get("rope_type", "yarn") == "yarn":
        factor = float(args.get("rotary_scaling_factor") or 1.0)
        said = {name: config.get(name) for name in ("mscale", "mscale_all_dim", "beta_fast", "beta_slow")}
        return {"rope_scaling": ["yarn", factor] if factor != 1 else [], **said}
    if args.get("position_embedding_type") == "yarn":
        return {
            "rope_scaling": ["yarn", float(config.get("yarn_rotary_scaling_factor") or 1.0)],
            **{name: config.get(f"yarn_{name}") for name in ("beta_fast", "beta_slow", "mscale", "mscale_all_dim")},
        }
    if args.get("use_rope_scaling"):
        return {"rope_scaling": ["llama3", float(args.get("rope_scaling_factor") or 8.0)]}
    return {"rope_scaling": []}


def _experts_of_megatron(args: Parsed, noops: list[int]) -> Facts:
    score = args.get("moe_router_score_function")
    shared = args.get("moe_shared_expert_intermediate_size") or (args.get("n_shared_experts") or 0) * (
        args.get("moe_ffn_hidden_size") or 0
    )
    groups = args.get("moe_router_num_groups")
    after_choice = score == "sigmoid" or not args.get("moe_router_pre_softmax")
    return {
        "num_experts": args.get("num_experts") or 0,
        "router_topk": args.get("moe_router_topk"),
        "expert_ffn_hidden_size": args.get("moe_ffn_hidden_size"),
        "shared_expert_size": shared,
        "moe_layers": _moe_layers(args, noops),
        "router_groups": [groups, args.get("moe_router_group_topk")] if groups and groups > 1 else [],
        "score_function": score,
        "normalize_topk": bool(after_choice or args.get("norm_topk_prob")),
        "topk_scale": args.get("moe_router_topk_scaling_factor") or 1.0,
        "expert_bias": bool(args.get("moe_router_enable_expert_bias")),
        "shared_expert_gate": bool(args.get("moe_shared_expert_gate") or args.get("shared_expert_gate")),
    }


def _moe_layers(args: Parsed, noops: list[int]) -> list[int]:
    """Mask of the layers with experts, without no-op layers."""
    if args.get("hybrid_layers"):
        return [int(symbol == "E") for symbol in args["hybrid_layers"]]
    frequency, first = args.get("moe_layer_freq"), args.get("first_k_dense_replace")
    if isinstance(frequency, list):
        pattern = [int(item) for item in frequency]
    else:
        every = max(int(frequency or 1), 1)
        start = first if isinstance(first, int) and first > 0 else 0
        pattern = [int(index >= start and index % every == 0) for index in range(args["num_layers"])]
    return [kind for index, kind in enumerate(pattern) if index not in noops]


def _noops(args: Parsed) -> list[int]:
    given = args.get("noop_layers")
    if not given:
        return []
    items = given if isinstance(given, list) else str(given).strip("{}[]() ").split(",")
    return [int(item) for item in items if str(item).strip()]


def _activation(value: Any) -> str | None:
    """Name of a function or its stand-in, without the module."""
    if value is None:
        return None
    name = str(value).removeprefix("<function ").split(" at ")[0].rpartition(".")[2].lower()
    return ACTIVATIONS.get(name, name)


def of_mindformers(found: Mapping[str, Parsed]) -> Facts:
    """Facts from the configuration of the layers, otherwise from the model's configuration."""
    config, model = found["config"], found.get("model", {})
    facts: Facts = {
        "untied_embeddings": not config.get("tie_word_embeddings"),  # of the two keys the one that classes read
        "vocabulary": config.get("vocab_size"),
        "learned_positions": config.get("position_embedding_type") == "learned_absolute",
        "qkv_bias": bool(config.get("add_qkv_bias") or config.get("add_bias_linear")),
        "qk_layernorm": bool(config.get("qk_layernorm")),
        "mtp_num_layers": config.get("mtp_num_layers") or 0,
        "normalization": LAYER_NORMS.get(config.get("normalization", "")),
        "norm_epsilon": config.get("layernorm_epsilon"),
        "activation": _activation(config.get("hidden_act") or config.get("activation_func")),
        "rotary_fraction": config.get("partial_rotary_factor") or config.get("rotary_percent"),
        "num_query_groups": config.get("num_query_groups") or config.get("num_attention_heads"),
        "qk_nope_head_dim": config.get("qk_head_dim"),
        "qk_rope_head_dim": config.get("qk_pos_emb_head_dim"),
        "attention_scale": config.get("softmax_scale"),
        "rotary_base": model.get("rope_theta") or config.get("rotary_base"),
        "rope_scaling": _scaling_of_mindformers(config, model),
        "num_experts": config.get("num_moe_experts") or 0,
        "router_topk": config.get("moe_router_topk"),
        "expert_ffn_hidden_size": config.get("moe_ffn_hidden_size"),
        "shared_expert_size": config.get("moe_shared_expert_intermediate_size") or 0,
        "score_function": config.get("moe_router_score_function"),
        "normalize_topk": config.get("norm_topk_prob"),
        "topk_scale": config.get("moe_router_topk_scaling_factor") or 1.0,
        "expert_bias": bool(config.get("moe_router_enable_expert_bias")),
    }
    groups = config.get("moe_router_num_groups")
    facts["router_groups"] = [groups, config.get("moe_router_group_topk")] if groups and groups > 1 else []
    frequency, first = config.get("moe_layer_freq"), config.get("first_k_dense_replace")
    if isinstance(frequency, list):
        facts["moe_layers"] = frequency
    else:
        facts["moe_layers"] = [int(index >= (first or 0)) for index in range(config["num_layers"])]
    for name in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels", "gated_linear_unit"):
        facts[name] = config.get(name)
    for name in ("q_lora_rank", "kv_lora_rank", "v_head_dim", "rotary_interleaved", "mscale", "mscale_all_dim"):
        facts[name] = config.get(name)
    return facts


def _scaling_of_mindformers(config: Parsed, model: Parsed) -> list[Any]:
    kind = config.get("position_embedding_type")
    if kind not in ("yarn", "llama3"):
        return []
    stated = model.get("rope_scaling") or {}
    return [kind, float(stated.get("factor") or config.get("rotary_scaling_factor") or 1.0)]

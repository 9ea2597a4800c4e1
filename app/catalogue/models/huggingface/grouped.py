"""The shape of a model with grouped-query attention, from what its families have in common."""

from __future__ import annotations

from typing import Any

from app.catalogue.models.huggingface.config import ACTIVATIONS, Config, Source, channels, given
from app.catalogue.models.huggingface.rotary import rotary
from cost_models.shapes.model_constants import ModelConstants, RouterConstants
from cost_models.shapes.workload import ModelShape


def constants(config: Config, source: Source, *, fraction: float | None = None, **more: Any) -> ModelConstants:
    """What all families state in the same way; ``fraction`` is the part of a head that is rotated."""
    values: dict[str, Any] = {
        "model_type": config.model_type,
        "activation": ACTIVATIONS[config.hidden_act],
        "normalization": "rmsnorm",
        "norm_epsilon": config.rms_norm_eps,
        "router": RouterConstants(),
        **rotary(config, source, fraction=fraction),
    }
    return ModelConstants(**{**values, **more})


def grouped(config: Config, source: Source, **more: Any) -> ModelShape:
    """``more`` are further fields of the shape, or others in place of the common ones."""
    values: dict[str, Any] = {
        "name": source.name,
        "num_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "ffn_hidden_size": config.intermediate_size,
        "vocab_size": config.vocab_size,
        "tied_embeddings": config.tie_word_embeddings,
    }
    if "num_query_groups" not in more:
        values["num_query_groups"] = query_groups(config, source)
    if "kv_channels" not in more:
        values["kv_channels"] = channels(config)
    if "constants" not in more:
        values["constants"] = constants(config, source)
    return ModelShape(**{**values, **more})


def query_groups(config: Config, source: Source, *, absent_is_heads: bool = False) -> int:
    """Null means as many as attention heads everywhere; absent means so in some families, elsewhere a number nobody wants."""
    if config.num_key_value_heads is None and (absent_is_heads or "num_key_value_heads" in source.nulls):
        return config.num_attention_heads
    return given(config, "num_key_value_heads")

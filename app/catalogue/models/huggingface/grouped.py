"""Shape fields that the model families share, with grouped-query attention or latent attention."""

from __future__ import annotations

from typing import Any

from app.catalogue.models.huggingface.config import ACTIVATIONS, Config, Source, channels, given, nullable, only
from app.catalogue.models.huggingface.rotary import rotary
from cost_models.shapes.model_constants import ModelConstants, RouterConstants
from cost_models.shapes.workload import MlaShape, ModelShape
from documents.bounds import NullableWidth, Width
from documents.sentences import Sentence


def constants(config: Config, source: Source, *, fraction: float | None = None, **more: Any) -> ModelConstants:
    """Constants that all families state in the same way; ``fraction`` is the rotated part of a head."""
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


class LatentConfig(Config):
    """Latent attention, by the names of most."""

    q_lora_rank: NullableWidth | None = None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: NullableWidth
    v_head_dim: Width


def latent(config: LatentConfig, source: Source) -> dict[str, Any]:
    """The fields of a shape that latent attention decides."""
    heads = config.num_attention_heads
    only(
        "num_key_value_heads",
        config.num_key_value_heads or heads,
        heads,
        Sentence("latent attention has as many as attention heads"),
    )
    mla = MlaShape(
        q_lora_rank=nullable(config, "q_lora_rank", source),
        kv_lora_rank=config.kv_lora_rank,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        v_head_dim=config.v_head_dim,
    )
    return {"num_query_groups": heads, "kv_channels": mla.qk_head_dim, "mla": mla}


def query_groups(config: Config, source: Source, *, absent_is_heads: bool = False) -> int:
    """Number of key and value heads.

    Null means the number of attention heads. A missing field means that only for families with ``absent_is_heads``; for others it
    is refused, because the library's default fits no model.
    """
    if config.num_key_value_heads is None and (absent_is_heads or "num_key_value_heads" in source.nulls):
        return config.num_attention_heads
    return given(config, "num_key_value_heads")

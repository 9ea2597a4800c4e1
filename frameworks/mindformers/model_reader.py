"""Reads the model in options of MindFormers, with layers of ``use_legacy: False`` or, as far as possible, older ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape
from documents.bounds import MAX_LAYERS, MAX_NAME
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError
from frameworks.mindformers.constants import constants_read
from frameworks.mindformers.reader import Reading
from frameworks.mindformers.table import EXPERT_KEYS, FOLDER, MODEL

# Configurations of the legacy layers [mindformers-1.8, models; mindformers-1.5, models]: Hugging Face's type, and fixed values.
_LLAMA = {
    "hidden_act": "silu",
    "normalization": "RMSNorm",
    "gated_linear_unit": True,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
_GPT2 = {"hidden_act": "gelu", "normalization": "LayerNorm", "gated_linear_unit": False, "attention_bias": True} | {
    "position_embedding_type": "learned_absolute", "tie_word_embeddings": True, "rms_norm_eps": None, "rope_theta": None,
}  # fmt: skip
_LEGACY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "LlamaConfig": ("llama", _LLAMA),
    "TelechatConfig": ("telechat", _LLAMA),
    "InternLM2Config": ("internlm2", _LLAMA),
    "ChatGLM2Config": ("chatglm", {**_LLAMA, "rotary_interleaved": True, "partial_rotary_factor": 0.5}),
    "DeepseekV2Config": ("deepseek_v2", _LLAMA),
    "DeepseekV3Config": ("deepseek_v3", _LLAMA),
    "GPT2Config": ("gpt2", _GPT2),
}
_NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")


class ModelReading:
    """A reading of the options as a model."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._sentences: list[str] = []
        legacy = reading.value(f"{MODEL}.type") if reading.legacy else None
        legacy = None if legacy is None else str(legacy)
        if legacy is not None and legacy not in _LEGACY:
            raise ReadingError(
                Sentence(
                    "{}.type {!r} names layers that are not known here; give a file of {}, or of use_legacy: False",
                    MODEL,
                    legacy[:80],
                    joined(", ", _LEGACY),
                )
            )
        written = reading.value(f"{MODEL}.model_type")
        self._model_type, self._fixed = _LEGACY[legacy] if legacy else (str(written or "")[:MAX_NAME], {})

    def _of(self, key: str) -> Any:
        if key in self._fixed and not self._given(key):
            return self._fixed[key]
        return self._reading.value(f"{MODEL}.{key}")

    def _given(self, key: str) -> bool:
        return self._reading.is_given(f"{MODEL}.{key}")

    def _number(self, key: str, low: int = 0) -> int | None:
        return self._reading.number(f"{MODEL}.{key}", low)

    def _needed(self, key: str) -> int:
        found = self._number(key, low=1) if self._given(key) or self._reading.trained_by else None
        if found is None:
            raise self._missing(key)
        return found

    def _missing(self, key: str) -> ReadingError:
        if self._reading.is_given(FOLDER):
            left = Sentence("it is left to the configuration in {}: give --with config.json, the model's", FOLDER)
            return ReadingError(Sentence("{}.{} is missing; {}", MODEL, key, left))
        return ReadingError(Sentence("{}.{} is missing; give it in the file", MODEL, key))

    def model(self) -> ModelShape:
        """The model; raises ``ReadingError`` if a dimension is missing."""
        if not (self._reading.legacy or self._model_type):
            raise self._missing("model_type")  # whose class has defaults for all that the file leaves out
        layers, hidden, heads, vocab = map(self._needed, _NEEDED)
        if layers > MAX_LAYERS:
            raise ReadingError(Sentence("{}.num_hidden_layers {} is not allowed; give at most {}", MODEL, layers, MAX_LAYERS))
        mla = self._mla()
        moe = self._moe(layers)
        groups = self._number("num_key_value_heads", low=1) or heads
        width = self._number("head_dim", low=1) or hidden // heads
        return ModelShape(
            name=self._model_type or "mindformers",
            num_layers=layers,
            hidden_size=hidden,
            num_attention_heads=heads,
            num_query_groups=groups,
            kv_channels=mla.qk_head_dim if mla else width,
            ffn_hidden_size=self._ffn(hidden),
            vocab_size=vocab,
            gated_linear_unit=bool(self._of("gated_linear_unit")),
            tied_embeddings=bool(self._of("tie_word_embeddings")),
            mtp_num_layers=self._number("num_nextn_predict_layers") or 0,
            sandwich_norm=bool(self._of("sandwich_norm")),
            qk_layernorm=bool(self._of("qk_layernorm")) and mla is None,
            attention_bias=bool(self._of("attention_bias")),
            learned_positions=self._of("position_embedding_type") == "learned_absolute",
            mla=mla,
            moe=moe,
            constants=constants_read(self._of, self._given, self._model_type, latent=mla is not None, experts=moe is not None),
        )

    def _ffn(self, hidden: int) -> int:
        """The width of dense layers; legacy layers compute it if it is not given [mindformers-1.8, llama_layer.py]."""
        given = self._number("intermediate_size", low=1)
        if given is not None:
            return given
        if not self._fixed or not self._of("gated_linear_unit"):
            return (self._number("expand_ratio", low=1) or 4) * hidden
        factor = self._of("ffn_dim_multiplier")
        width = int((factor + 0.01) * 4 * hidden) if isinstance(factor, int | float) and 0 < factor < 100 else 4 * hidden
        multiple = self._number("multiple_of", low=1) or 256
        return multiple * -(-int(2 * width / 3) // multiple)

    def _mla(self) -> MlaShape | None:
        if not self._of("multi_latent_attention") and not (self._fixed and self._of("kv_lora_rank")):
            return None
        names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        widths = {name: self._number(name) for name in names}
        missing = [name for name, width in widths.items() if not width]
        if missing:
            raise ReadingError(Sentence("{}.{} is missing; give the width of latent attention", MODEL, missing[0]))
        return MlaShape(q_lora_rank=self._number("q_lora_rank") or 0, **{name: width or 0 for name, width in widths.items()})

    def _moe(self, layers: int) -> MoeShape | None:
        experts = next((found for key in EXPERT_KEYS if (found := self._reading.number(key))), 0)
        if experts <= 1:
            return None
        width = self._number("moe_intermediate_size", low=1) or self._number("intermediate_size", low=1) or 1
        shared = self._number("n_shared_experts") or 0
        leading, every = self._expert_layers(layers)
        groups = self._number("n_group") or 1
        return MoeShape(
            num_experts=experts,
            top_k=self._number("num_experts_per_tok", low=1) or 1,
            expert_ffn_hidden_size=width,
            num_shared_experts=shared,
            shared_expert_ffn_hidden_size=self._number("moe_shared_expert_intermediate_size") or shared * width,
            num_leading_dense_layers=leading,
            moe_layer_freq=every,
            num_groups=groups,
            group_topk=(self._number("topk_group") or groups) if groups > 1 else 1,
        )

    def _expert_layers(self, layers: int) -> tuple[int, int]:
        """Number of leading dense layers, and the frequency of MoE layers after them."""
        if self._reading.trained_by is not None and not self._reading.trained_by.dense_layers:
            return 0, 1
        leading, pattern = self._number("first_k_dense_replace") or 0, self._of("moe_layer_freq")
        if leading or pattern in (None, 1):
            return min(leading, layers - 1), 1
        if pattern == [int(index >= 0) for index in range(layers)]:
            return 0, 1
        found = _regular(pattern, layers) if isinstance(pattern, list) else None
        if found is None:
            self._sentences.append(Sentence("{}.moe_layer_freq {} is read as experts in every layer", MODEL, str(pattern)[:80]))
        return found or (0, 1)

    def passed_over(self) -> Iterator[str]:
        """Sentences on values of the model that are read as something else."""
        yield from self._sentences
        if self._of("multi_latent_attention") and self._of("qk_layernorm") is False:
            yield Sentence(
                "{}.qk_layernorm false is read as norms on the compressed queries and keys, which latent attention has", MODEL
            )
        capacity = self._of("capacity_factor")
        if self._reading.legacy and isinstance(capacity, int | float) and capacity > 0:
            yield Sentence("{}.capacity_factor {} is read as experts without a limit", MODEL, capacity)


def _regular(pattern: list[Any], layers: int) -> tuple[int, int] | None:
    """Leading dense layers and frequency of a pattern of zeros and ones; ``None`` for other patterns."""
    routed = [index for index, has_experts in enumerate(pattern) if has_experts == 1]
    if len(pattern) != layers or not routed:
        return None
    every = routed[1] - routed[0] if len(routed) > 1 else layers - routed[0]
    leading = routed[0] - every + 1
    regular = leading >= 0 and routed == list(range(routed[0], layers, every))
    return (leading, every) if regular else None

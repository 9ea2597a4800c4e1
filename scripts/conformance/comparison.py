"""Facts of the user's model that a framework changed, and whether the header of the file names each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_models.shapes.workload import ModelShape
from scripts.conformance import model_facts
from scripts.conformance.asking import Answer

SAME = 1e-6  # relative difference up to which numbers are equal
# Words for a fact in the notes of a launch file, in addition to its own name.
NAMES = {
    "vocabulary": ("vocab", "embedding rows"),
    "norm_epsilon": ("epsilon",),
    "rotary_base": ("rope_theta", "rotary base"),
    "rotary_fraction": ("rotary_percent", "partial rotary", "rotary fraction"),
    "rotary_interleaved": ("interleaved",),
    "rope_scaling": ("rope scaling", "yarn", "llama3"),
    "mscale": ("yarn", "rope scaling"),
    "mscale_all_dim": ("yarn", "rope scaling"),
    "beta_fast": ("yarn", "rope scaling"),
    "beta_slow": ("yarn", "rope scaling"),
    "low_freq_factor": ("rope scaling", "llama3"),
    "high_freq_factor": ("rope scaling", "llama3"),
    "qk_layernorm": ("qk_norm", "norm of queries", "norms of queries", "qk norm"),
    "qkv_bias": ("attention_bias", "bias of queries"),
    "score_function": ("scoring", "sigmoid", "softmax"),
    "normalize_topk": ("norm_topk", "divided by their sum"),
    "topk_scale": ("routed_scaling", "scaling factor"),
    "expert_bias": ("bias on the choice", "router bias"),
    "shared_expert_gate": ("gate of the shared", "shared expert's gate", "shared experts' gate"),
    "sandwich_norm": ("sandwich", "post-norm", "post norm"),
    "attention_softcap": ("softcap", "soft cap"),
    "logit_softcap": ("softcap", "soft cap"),
    "attention_sinks": ("sinks",),
    "attention_scale": ("attention scale", "query_pre_attn_scalar"),
    "moe_layers": ("dense layers", "moe_layer_freq"),
    "activation": ("activation", "gelu", "silu"),
    "gated_linear_unit": ("gated",),
}


@dataclass(frozen=True)
class Difference:
    """A fact with its values in the framework and in the job; ``named``: the header of the file mentions it."""

    fact: str
    found: Any
    expected: Any
    named: bool

    def __str__(self) -> str:
        return f"{self.fact}: {_short(self.found)}, the model has {_short(self.expected)}"


def differences(answer: Answer, model: ModelShape) -> list[Difference]:
    """Differences of an answer that reached a configuration."""
    if answer.header is None:
        return []
    if answer.header.target == "mindformers":
        if "config" not in answer.found:
            return []
        have = model_facts.of_mindformers(answer.found)
    else:
        if "config" not in answer.found:
            return []
        have = model_facts.of_megatron(answer.found, mindspeed=answer.header.target == "mindspeed-llm")
    return compared(model_facts.expected(model), have, answer.header.notes)


def compared(want: Mapping[str, Any], have: Mapping[str, Any], notes: Sequence[str]) -> list[Difference]:
    """Facts of both whose values differ."""
    said = " ".join(notes).lower()
    found = []
    for name, value in want.items():
        if name in have and not _same(value, have[name]):
            words = (name, name.replace("_", "-"), name.replace("_", " "), *NAMES.get(name, ()))
            found.append(Difference(name, have[name], value, any(word in said for word in words)))
    return found


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return bool(expected) == bool(found)
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return abs(expected - found) <= SAME * max(abs(expected), abs(found))
    if isinstance(expected, list) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(_same(a, b) for a, b in zip(expected, found, strict=True))
    return bool(expected == found)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

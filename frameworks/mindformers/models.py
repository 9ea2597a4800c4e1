"""Model classes of a MindFormers release. Each class builds models of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.mindformers.table import RELEASE
from frameworks.rule import all_of, either

# Constants that no class implements: the value that they must have, and words for another value.
NOT_COMPUTED: Mapping[str, tuple[Any, str]] = {
    "norm_zero_centered": (False, Sentence("norms with a weight of 1 + w")),
    "rotary_fraction": (1.0, Sentence("a partial rotary embedding")),
    "local_rotary_base": (None, Sentence("a second rotary base")),
    "attention_output_bias": (False, Sentence("a bias behind attention")),
    "attention_scale": (None, Sentence("a scale of its own in attention")),
    "attention_softcap": (None, Sentence("soft-capped attention scores")),
    "logit_softcap": (None, Sentence("soft-capped logits")),
    "embedding_scale": (None, Sentence("scaled embeddings")),
    "attention_sinks": (False, Sentence("attention sinks")),
    "activation_clamp": (None, Sentence("a clamped activation")),
    "glu_linear_offset": (0.0, Sentence("an offset in the gated linear unit")),
    "qk_norm_over_heads": (False, Sentence("QK norm over all heads together")),
    "post_norm_residual": (None, Sentence("a residual behind the norm")),
}


@dataclass(frozen=True)
class ModelClass:
    """A class that can be trained. ``configurations``: Hugging Face's model types; ``defaults``: its defaults of model_config.

    ``experts``: the key of the number of experts, empty for a class without; ``dense_layers``: whether it can have dense layers
    too. ``qk_layernorm``: it always has these norms. ``converts``: it loads weights as Hugging Face stores them.
    """

    model_type: str
    architecture: str
    configurations: tuple[str, ...]
    experts: str
    latent_attention: bool
    tied_embeddings: bool
    mtp_layers: int
    source: str
    defaults: Mapping[str, Any]
    qk_layernorm: bool = False
    dense_layers: bool = True
    converts: bool = True

    def lacks(self, model: ModelShape) -> Iterator[str]:
        """Parts of the model that the class does not build."""
        if self.latent_attention != (model.mla is not None):
            yield Sentence("grouped attention") if self.latent_attention else Sentence("latent attention")
        if self.qk_layernorm and not model.qk_layernorm:
            yield Sentence("attention without QK norm")
        if model.moe is not None and not self.experts:
            yield "experts"
        if model.moe is None and self.experts and not self.dense_layers:
            yield Sentence("layers without experts")
        if model.moe is not None and not self.dense_layers and not all(model.moe_layers()):
            yield Sentence("dense layers beside those of experts")
        if model.tied_embeddings and not self.tied_embeddings:
            yield Sentence("tied embeddings")
        if model.mtp_num_layers > self.mtp_layers == 0:
            yield Sentence("multi-token prediction")
        yield from _attention(model)
        yield from _common(model)
        yield from _router(model)


def _attention(model: ModelShape) -> Iterator[str]:
    constants, scaling = model.constants, model.constants.rope_scaling
    if model.mla is None:
        if model.hidden_size % model.num_attention_heads:
            yield Sentence("{} heads, which do not divide hidden_size {}", model.num_attention_heads, model.hidden_size)
        if scaling is not None:
            yield Sentence("rotary positions scaled by {} without latent attention", scaling.kind)
        if constants.rotary_interleaved:
            yield Sentence("interleaved rotary positions")
        return
    if model.mla.qk_head_dim < model.mla.v_head_dim:
        yield Sentence("values wider ({}) than queries ({})", model.mla.v_head_dim, model.mla.qk_head_dim)
    if scaling is not None and scaling.kind != "yarn":
        yield Sentence("rotary positions scaled by {}", scaling.kind)
    elif scaling is not None and scaling.truncate is False:
        yield Sentence("YaRN without whole channels as its borders")
    elif scaling is not None and scaling.mscale != scaling.mscale_all_dim:
        yield Sentence(
            "YaRN with mscale {} and mscale_all_dim {}, which must be equal there", scaling.mscale, scaling.mscale_all_dim
        )


def _common(model: ModelShape) -> Iterator[str]:
    constants = model.constants
    if not model.gated_linear_unit or constants.activation not in (None, "silu"):
        yield Sentence("an MLP of {}{}", "" if model.gated_linear_unit else "ungated ", constants.activation or "gelu")
    if constants.normalization not in (None, "rmsnorm"):
        yield f"{constants.normalization}"
    yield from unsaid_layers(model)
    if model.no_positions:
        yield Sentence("attention without positions")
    if model.learned_positions or model.alibi:
        yield Sentence("learned positions") if model.learned_positions else Sentence("ALiBi positions")
    yield from not_computed(constants)


def unsaid_layers(model: ModelShape) -> Iterator[str]:
    """Words for layers that no key of a file says, so that a file would be of a model of another cost."""
    if model.hybrid_layer_pattern:
        yield Sentence("layers of one block each")
    if model.local_attention is not None:
        yield Sentence(
            "layers with {}", Sentence("a window") if model.local_attention.kind == "window" else Sentence("linear attention")
        )
    if model.sparse_attention is not None:
        yield Sentence("sparse attention")
    if model.attention_output_gate:
        yield Sentence("a gate behind attention")


def not_computed(constants: ModelConstants) -> Iterator[str]:
    """Words for the constants that no class implements."""
    for name, (usual, words) in NOT_COMPUTED.items():
        if getattr(constants, name) != usual:
            yield words


def _router(model: ModelShape) -> Iterator[str]:
    moe, router = model.moe, model.constants.router
    if moe is None:
        return
    if moe.capacity_factor is not None:
        yield Sentence("a capacity of experts")
    if moe.expert_biases:
        yield Sentence("biases of experts")
    if moe.num_groups > 1 and moe.top_k % moe.group_topk:
        yield Sentence("top {} of {} groups, which do not divide it", moe.top_k, moe.group_topk)
    if router.expert_bias and router.score_function != "sigmoid":
        yield Sentence("an expert bias without sigmoid scores")


CLASSES = {
    name: ModelClass(**{**entry, "model_type": name, "configurations": tuple(entry["configurations"])})
    for name, entry in RELEASE.models.items()
}
_BY_TYPE = {configuration: each for each in CLASSES.values() for configuration in each.configurations}


def class_of(model: ModelShape) -> ModelClass | None:
    """The class that trains the model, by its type or as the only match; ``None`` if there is none."""
    if model.constants.model_type:
        named = _BY_TYPE.get(model.constants.model_type)
        return named if named and not any(named.lacks(model)) else None
    fitting = [each for each in CLASSES.values() if not any(each.lacks(model))]
    return fitting[0] if len(fitting) == 1 else None


def likest(model: ModelShape) -> ModelClass:
    """The class that trains the model, else the nearest class. A file for another model is written with its keys."""
    named = _BY_TYPE.get(model.constants.model_type)
    return class_of(model) or named or min(CLASSES.values(), key=lambda each: len(list(each.lacks(model))))


def untrained(model: ModelShape) -> str:
    """Why the release trains no such model, as the end of a sentence."""
    release, named = Sentence("MindFormers {}", RELEASE.version), _BY_TYPE.get(model.constants.model_type)
    if named is not None:
        return Sentence("the class {} of {} does not build {}", named.architecture, release, all_of(list(named.lacks(model))))
    kind = model.constants.model_type
    trained = Sentence("it trains {}", all_of(sorted(_BY_TYPE)))
    if kind:
        other = Sentence.whole(RELEASE.elsewhere.get(kind, ""))
        has_it = Sentence("; {} has one, for which no file is written here", other) if other else ""
        return Sentence("{} has no training class for {} ({}){}", release, kind, trained, has_it)
    fitting = [each.model_type for each in CLASSES.values() if not any(each.lacks(model))]
    if fitting:
        return Sentence("{} has several classes for it; state model.constants.model_type: {}", release, either(fitting))
    nearest = likest(model)
    return Sentence(
        "{} has no class for it ({}); the nearest, {}, does not build {}",
        release,
        trained,
        nearest.model_type,
        all_of(list(nearest.lacks(model))),
    )

"""Model constants that MindFormers needs and no price depends on, as keys of ``model.model_config``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence, joined
from frameworks.mindformers.models import ModelClass
from frameworks.options import Options
from frameworks.rule import all_of

# Field of the constants -> key. If a model does not state one, the file has the default of the class, with a note.
MODEL_KEYS = {"norm_epsilon": "rms_norm_eps", "rotary_base": "rope_theta"}
ROUTER_KEYS = {
    "score_function": "moe_router_score_function",
    "normalize_topk": "norm_topk_prob",
    "topk_scale": "routed_scaling_factor",
    "expert_bias": "moe_router_enable_expert_bias",
}
_ACTIVATIONS = {"silu": "silu", "swiglu": "silu", "gelu": "gelu", "fast_gelu": "gelu_tanh", "relu": "relu"}
_NORMALIZATIONS = {"RMSNorm": "rmsnorm", "LayerNorm": "layernorm"}
_SCORES = {"sigmoid": "sigmoid", "True": "sigmoid", "softmax": "softmax", "False": "softmax"}  # use_gating_sigmoid is a switch
_NO_SCALE = 1.0  # the router multiplies by it even where the class has no default [mindformers-1.8, router.py]
_ORIGINAL_LENGTH = "original_max_position_embeddings"


def _stated(model: ModelShape) -> dict[str, tuple[str, Any]]:
    """Key -> name and value of each constant in a file."""
    constants = model.constants
    stated = {key: (name, getattr(constants, name)) for name, key in MODEL_KEYS.items()}
    if model.moe is not None:
        stated |= {key: (f"router.{name}", getattr(constants.router, name)) for name, key in ROUTER_KEYS.items()}
    return stated


def _default(key: str, trained_by: ModelClass) -> Any:
    return trained_by.defaults.get(key, _NO_SCALE if key == ROUTER_KEYS["topk_scale"] else None)


def constants_written(model: ModelShape, trained_by: ModelClass) -> Options:
    """Values by key, without the section."""
    written = {key: _default(key, trained_by) if value is None else value for key, (_, value) in _stated(model).items()}
    written = {key: value for key, value in written.items() if value is not None}
    scaling = model.constants.rope_scaling
    if scaling is not None:
        said = {name: value for name, value in asdict(scaling).items() if name not in ("kind", "truncate") and value is not None}
        written |= {"position_embedding_type": scaling.kind, "rope_scaling": {"type": scaling.kind, **said}}
    else:
        written |= {"position_embedding_type": "learned_absolute" if model.learned_positions else "rope"}
        # Scores of latent attention are scaled by YaRN's factor even without it [mindformers-1.8, multi_latent_attention.py].
        written |= {"rotary_scaling_factor": 1.0} if model.mla is not None else {}
    if model.constants.router.shared_expert_gate:
        written["use_shared_expert_gating"] = True
    return written


def unstated_note(model: ModelShape, trained_by: ModelClass) -> tuple[str, ...]:
    """A sentence about constants that the model does not state."""
    taken = {name: _default(key, trained_by) for key, (name, value) in _stated(model).items() if value is None}
    said = [Sentence("{} {}", name, str(value).lower()) for name, value in taken.items() if value is not None]
    if not said:
        return ()
    return (
        Sentence("The model does not state {}; the file holds MindFormers' own: {}.", all_of(list(taken)), joined(", ", said)),
    )


def constants_read(
    value: Callable[[str], Any], given: Callable[[str], bool], model_type: str, *, latent: bool, experts: bool
) -> ModelConstants:
    """The constants that a file states. ``value`` gives the class's default for keys that are not ``given``."""
    scaling = value("rope_scaling")
    hidden_act, normalization, fraction = value("hidden_act"), value("normalization"), _number(value("partial_rotary_factor"))
    return ModelConstants(
        model_type=model_type,
        activation=_ACTIVATIONS.get(str(hidden_act)),
        normalization=_NORMALIZATIONS.get(str(normalization)),
        norm_epsilon=_number(value("rms_norm_eps")),
        rotary_base=_number(value("rope_theta")),
        rope_scaling=_scaling(scaling) if isinstance(scaling, dict) else None,
        max_position_embeddings=_whole(value("max_position_embeddings")) if given("max_position_embeddings") else None,
        rotary_fraction=fraction if fraction and 0 < fraction <= 1 else 1.0,
        rotary_interleaved=bool(value("rotary_interleaved")) and not latent,
        router=_router(value) if experts else RouterConstants(),
    )


def _router(value: Callable[[str], Any]) -> RouterConstants:
    return RouterConstants(
        score_function=_SCORES.get(str(value(ROUTER_KEYS["score_function"]))),
        normalize_topk=bool(value(ROUTER_KEYS["normalize_topk"])),
        topk_scale=_number(value(ROUTER_KEYS["topk_scale"])) or _NO_SCALE,
        expert_bias=bool(value(ROUTER_KEYS["expert_bias"])),
        shared_expert_gate=bool(value("use_shared_expert_gating")),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _scaling(given: dict[str, Any]) -> RopeScaling | None:
    kind, factor = given.get("type", given.get("rope_type")), _number(given.get("factor"))
    if not isinstance(kind, str) or factor is None:
        return None
    names = ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
    numbers: dict[str, Any] = {name: _number(given.get(name)) for name in names}
    return RopeScaling(kind, factor, _whole(given.get(_ORIGINAL_LENGTH)), **numbers)

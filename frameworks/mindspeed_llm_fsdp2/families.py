"""Models of the FSDP2 backend: by ``model_id`` layers of its own, without one those of transformers."""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence
from frameworks.mindspeed_llm_fsdp2.table import MIXTURE
from frameworks.rule import either

# Model types that each model_id builds, "" for none [mindspeed-llm, fsdp2/models/model_factory.py:106].
TYPES: Mapping[str, tuple[str, ...]] = {
    "": ("llama", "qwen2", "qwen3"),
    "qwen3": ("qwen3",),
    MIXTURE: (MIXTURE,),
}
KNOWN = tuple(dict.fromkeys(kind for kinds in TYPES.values() for kind in kinds))
# Model types that context parallelism has attention for [mindspeed-llm, context_parallel_mappings.py:75].
CONTEXT_PARALLEL = ("qwen2", "qwen3", MIXTURE)
# Values of model_id that are not read, and why.
UNREAD: Mapping[str, str] = {
    "gpt_oss": Sentence("its attention and experts are of its own modules, whose kernels are not priced"),
    "qwen3_next": Sentence("its linear attention has kernels of the backend, which are not priced"),
    "step35": Sentence("its layers have no known shape"),
    "mamba3": Sentence("its layers are no attention"),
    "minimax_m27": Sentence("its attention and experts are of its own modules, whose kernels are not priced"),
    "longcat_flash_ngram": Sentence("its embeddings of n-grams and its experts that do nothing are not priced"),
    "glm52": Sentence("its sparse attention is not priced"),
    "deepseek_v4": Sentence("its sparse attention and its residual streams are not priced"),
}
_PLAIN = ModelConstants()
# Constants of a model that make other layers than those of the types above.
_OTHER = (
    *("norm_zero_centered", "rotary_fraction", "local_rotary_base", "attention_output_bias", "attention_scale"),
    *("attention_softcap", "logit_softcap", "embedding_scale", "attention_sinks", "activation_clamp", "glu_linear_offset"),
    *("qk_norm_over_heads", "post_norm_residual"),
)


def model_id_of(model: ModelShape) -> str:
    """The ``model_id`` that a file gives for a model; empty for layers of transformers."""
    return MIXTURE if model.constants.model_type == MIXTURE else ""


def is_trained(model: ModelShape) -> bool:
    """Whether the backend builds the model with layers that are priced."""
    kind, constants = model.constants.model_type, model.constants
    experts = model.moe
    plain = experts is None or (experts.num_shared_experts == 0 and all(model.moe_layers()) and experts.capacity_factor is None)
    return (
        kind in TYPES[model_id_of(model)]
        and (experts is not None) == (kind == MIXTURE)
        and plain
        and model.mla is None
        and not model.mtp_num_layers
        and model.local_attention is None
        and model.sparse_attention is None
        and not model.sandwich_norm
        and model.gated_linear_unit
        and not model.learned_positions
        and not model.no_positions
        and not model.hybrid_layer_pattern
        and all(getattr(constants, name) == getattr(_PLAIN, name) for name in _OTHER)
    )


def why_not_trained(model: ModelShape) -> str:
    """A sentence on a model that is not."""
    kind = model.constants.model_type or Sentence("unknown")
    return Sentence(
        "{} is of type {}, and layers of {} alone are priced as this backend runs them", model.name, kind, either(KNOWN)
    )

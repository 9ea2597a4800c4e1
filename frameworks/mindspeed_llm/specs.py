"""Layer specifications (``--spec``) of MindSpeed-LLM by the traits of a model's layers [mindspeed-llm, tasks/models/spec].

Without a specification ``pretrain_gpt.py`` builds layers with two norms and plain attention, whatever other arguments say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence

OVER_HEADS = Sentence("norms of queries and keys over all heads")
TRAITS: Mapping[str, Callable[[ModelShape], bool]] = {
    Sentence("latent attention"): lambda model: model.mla is not None,
    Sentence("norms of queries and keys"): lambda model: (
        model.qk_layernorm and model.mla is None and not model.constants.qk_norm_over_heads
    ),
    OVER_HEADS: lambda model: model.qk_layernorm and model.constants.qk_norm_over_heads,
    Sentence("norms behind attention and MLP"): lambda model: model.sandwich_norm,
    Sentence("a gate of the shared experts"): lambda model: model.moe is not None and model.constants.router.shared_expert_gate,
    Sentence("linear attention"): lambda model: model.local_attention is not None and model.local_attention.kind == "linear",
    Sentence("a gate of attention's output"): lambda model: model.attention_output_gate,
    # Latent attention has no specification with such norms at all.
    Sentence("multi-token prediction behind such norms"): lambda model: (
        model.sandwich_norm and model.mtp_num_layers > 0 and model.mla is None
    ),
    Sentence("attention sinks"): lambda model: model.constants.attention_sinks,
}
"""What a layer may have beside norm, attention, norm and MLP; no trait is built by a specification that does not honour it."""


@dataclass(frozen=True)
class Spec:
    """A specification: ``module`` builds layers with any of the traits ``honours``."""

    module: str
    honours: tuple[str, ...] = ()


SPECS = (
    Spec(""),  # the default of pretrain_gpt.py
    Spec("qwen3_spec", (Sentence("norms of queries and keys"),)),
    Spec("deepseek_spec", (Sentence("latent attention"),)),
    Spec("minimax_spec", (OVER_HEADS,)),
    Spec("gemma2_spec", (Sentence("norms behind attention and MLP"), Sentence("norms of queries and keys"))),
    Spec("qwen2_moe_spec", (Sentence("a gate of the shared experts"), Sentence("norms of queries and keys"))),
    Spec(
        "qwen3_next_spec",
        (
            Sentence("linear attention"),
            Sentence("a gate of attention's output"),
            Sentence("norms of queries and keys"),
            Sentence("a gate of the shared experts"),
        ),
    ),
)
# Others that build the same: read, never written.
READ_SPECS = (
    Spec("bailing_spec", (Sentence("norms of queries and keys"),)),
    Spec("grok_spec", (Sentence("norms behind attention and MLP"), Sentence("norms of queries and keys"))),
)
# What posttrain_gpt.py builds without a specification, as pretrain_gpt.py does not [mindspeed-llm, base_trainer.py].
OF_TUNING = (Sentence("norms of queries and keys"),)
PACKAGE = "mindspeed_llm.tasks.models.spec"


def traits_of(model: ModelShape) -> tuple[str, ...]:
    """Traits of the model's layers besides norm, attention, norm and MLP."""
    return tuple(name for name, has in TRAITS.items() if has(model))


def spec_of(model: ModelShape) -> Spec:
    """The first specification that supports most of the model's traits."""
    wanted = set(traits_of(model))
    return max(SPECS, key=lambda spec: len(wanted.intersection(spec.honours)))


def unbuilt(model: ModelShape) -> tuple[str, ...]:
    """Traits that the specification does not support: with it, another model would be trained."""
    honoured = spec_of(model).honours
    return tuple(name for name in traits_of(model) if name not in honoured)

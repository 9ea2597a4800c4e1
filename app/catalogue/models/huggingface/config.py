"""Fields that the ``config.json`` files of all families share [transformers-main, models/*/configuration_*.py]."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from app.catalogue.models.shape import Fraction, Positive, YarnScale, head_width
from documents.bounds import FfnWidth, Line, NumLayers, SeqLength, Vocab, Width
from documents.checking import LenientSection
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence

# Names that the library has for one function; "swish" and "silu" are the same.
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
}
Activation = Literal["silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2"]


def _no_bias(given: bool) -> bool:
    if given:
        raise ValueError(Sentence("true is not allowed; biases in the MLP are not modelled."))
    return given


NoBias = Annotated[bool, AfterValidator(_no_bias)]


class Rope(LenientSection):
    """``rope_scaling``, and ``rope_parameters`` of newer files, which also contains the base."""

    rope_type: Line | None = None
    type: Line | None = None  # older name of rope_type
    rope_theta: Positive | None = None
    partial_rotary_factor: Fraction | None = None
    factor: Positive | None = None
    original_max_position_embeddings: SeqLength | None = None
    low_freq_factor: Positive | None = None
    high_freq_factor: Positive | None = None
    beta_fast: Positive | None = None
    beta_slow: Positive | None = None
    mscale: YarnScale | None = None
    mscale_all_dim: YarnScale | None = None
    attention_factor: Positive | None = None
    alpha: Positive | None = None
    truncate: bool | None = None


class RopeByLayer(Rope):
    """``rope_parameters`` of models whose layers with a window have another base."""

    full_attention: Rope | None = None
    sliding_attention: Rope | None = None


class TypedConfig(LenientSection):
    """The fields that name the family."""

    model_type: Line


class Config(LenientSection):
    """Grouped-query attention and gated MLPs, the common ground. A family's defaults are its library's."""

    model_type: Line
    num_hidden_layers: NumLayers
    hidden_size: Width
    num_attention_heads: Width
    num_key_value_heads: Width | None = None
    head_dim: Width | None = None
    intermediate_size: FfnWidth
    vocab_size: Vocab
    tie_word_embeddings: bool = False
    hidden_act: Activation = "silu"
    rms_norm_eps: Fraction = 1e-6
    rope_theta: Positive | None = None
    rope_scaling: Rope | None = None
    rope_parameters: RopeByLayer | None = None
    max_position_embeddings: SeqLength | None = None

    default_theta: ClassVar[float] = 10_000.0
    default_fraction: ClassVar[float] = 1.0
    default_positions: ClassVar[int | None] = None


class BiasedConfig(Config):
    """Attention whose projections, including the output's, have a bias if the file says so."""

    attention_bias: bool = False
    mlp_bias: NoBias = False


@dataclass(frozen=True)
class Source:
    """Name, null fields and notes of a file, which its checked section does not contain."""

    name: str
    nulls: frozenset[str]  # null fields, which the library distinguishes from missing fields
    notes: list[str] = field(default_factory=list)  # notes on the import for the user


def given(config: LenientSection, name: str) -> int:
    """A field that this kind of model needs."""
    value: int | None = getattr(config, name)
    if value is None:
        raise InputError(Sentence("{}: missing; give an integer.", name))
    return value


def nullable(config: LenientSection, name: str, source: Source) -> int:
    """An integer whose null means 0; the file must state it, because the library's default depends on its version."""
    value: int | None = getattr(config, name)
    if value is None and name not in source.nulls:
        raise InputError(Sentence("{}: missing; give an integer, or null for none.", name))
    return value or 0


def channels(config: Config) -> int:
    """Channels per attention head: `head_dim`, or hidden size / heads if the file omits it."""
    return config.head_dim or head_width(config.hidden_size, config.num_attention_heads, "head_dim")


def only(name: str, value: object, allowed: object, why: str) -> None:
    """Refuse a value that changes the model in a way that no formula and no launch file supports."""
    if value != allowed:
        raise InputError(Sentence("{}: {} is not allowed; {}, give {}.", name, show(value), why, show(allowed)))

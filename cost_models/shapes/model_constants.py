"""Model constants that frameworks need and no price depends on: bases, epsilons, the router's arithmetic.

Three of them are parameters, a few in a layer, which are counted: the bias of attention's output, sinks, a shared expert's gate.
"""

from __future__ import annotations

from dataclasses import field

from documents.late_methods import dataclass


@dataclass(frozen=True)
class RopeScaling:
    """Rotary positions extended beyond the trained length.

    ``kind``: ``llama3`` (frequencies between two cut-offs), ``yarn``, ``linear``. ``None``: not stated, or of another kind.
    """

    kind: str
    factor: float
    original_max_position_embeddings: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool | None = None  # YaRN: round the channel range in which frequencies are mixed to whole channels


@dataclass(frozen=True)
class RouterConstants:
    """Rules by which the router turns scores of experts into weights. ``None``: not stated."""

    score_function: str | None = None  # softmax | sigmoid
    normalize_topk: bool | None = None  # the chosen experts' weights are divided by their sum
    topk_scale: float | None = None  # the chosen experts' weights are multiplied by this
    expert_bias: bool | None = None  # balance by a bias on the choice, without auxiliary loss
    shared_expert_gate: bool = False


@dataclass(frozen=True)
class ModelConstants:
    """Constants of a model under Megatron's names. ``None``: not stated; a launch file then leaves it to the framework."""

    model_type: str = ""  # Hugging Face's; "": unknown
    activation: str | None = None  # silu | gelu | gelu_tanh | quick_gelu | relu | relu2; the model's shape says if it is gated
    normalization: str | None = None  # rmsnorm | layernorm
    norm_epsilon: float | None = None
    norm_zero_centered: bool = False  # the norm's weight is 1 + the stored value
    rotary_base: float | None = None
    rotary_fraction: float = 1.0  # part of a head's channels that is rotated
    rotary_interleaved: bool = False  # pairs of neighbours are rotated, not halves
    local_rotary_base: float | None = None  # rotary base of layers with a window, if different
    rope_scaling: RopeScaling | None = None
    max_position_embeddings: int | None = None
    attention_output_bias: bool = False
    attention_scale: float | None = None  # factor on the scores; None: one over the root of the head's channels
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    embedding_scale: float | None = None
    attention_sinks: bool = False
    router: RouterConstants = field(default_factory=RouterConstants)
    activation_clamp: float | None = None  # upper limit of the gate; limit of the gated value on both sides
    glu_linear_offset: float = 0.0  # added to the value that the gate multiplies
    qk_norm_over_heads: bool = False  # the norm of queries, and of keys, is over all heads together
    post_norm_residual: float | None = None  # the residual is the normed input times this; None: the input itself

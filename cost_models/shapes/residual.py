"""Precision of the residual sums of a layer in 16-bit training: what is FP32, and what the casts around the sums move."""

from __future__ import annotations

from documents.late_methods import dataclass

_CAST, _SUM_16, _SUM_32 = 6.0, 6.0, 12.0  # bytes that an element moves: between 16 and 32 bits, and in a sum of two
_WIDE_NORM = 4.0  # of a norm that reads and writes 32 bits in place of 16; its output is then cast for the linear layer


@dataclass(frozen=True)
class Residual:
    """One form of the two sums of a layer.

    ``moved_bytes``: HBM traffic of a forward for each token and channel: the sums, their casts, and what norms of FP32 inputs
    move beyond others. ``wide_norm_inputs``: norms that keep an FP32 input. ``is_stream``: FP32 from layer to layer.
    """

    moved_bytes: float
    wide_norm_inputs: int = 0
    is_stream: bool = False


# By name, as in jobs. Every sum casts what attention or the MLP returns, and the residual where that is in 16 bits.
RESIDUALS = {
    "none": Residual(2 * _SUM_16),
    # Each sum is cast back at once, and gradients of sums and casts need no tensor [mindformers-1.8, llama_transformer.py].
    "sums": Residual(2 * (2 * _CAST + _SUM_32 + _CAST)),
    # FP32 from the first sum on, cast back behind the second [mindformers-1.8, training_graph/transformer/transformer_layer.py].
    "layer": Residual(2 * (_CAST + _SUM_32) + _CAST + _CAST + _WIDE_NORM + _CAST, wide_norm_inputs=1),
    # Never cast back [mindformers-1.8, glm2_transformer.py].
    "stream": Residual(2 * (_CAST + _SUM_32 + _WIDE_NORM + _CAST), wide_norm_inputs=2, is_stream=True),
}

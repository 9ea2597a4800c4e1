"""Categories of runs, reported apart because a pooled mean hides their differences."""

from __future__ import annotations

CATEGORIES = ("slice", "moe", "long", "dense_multi", "dense_single")
LONG_SEQUENCE = 32_768
_SLICE_LAYERS, _SLICE_HIDDEN = 16, 4096


def is_slice(num_layers: int, hidden_size: int) -> bool:
    """Whether a model looks like a large one cut to a few layers."""
    return num_layers <= _SLICE_LAYERS and hidden_size >= _SLICE_HIDDEN


def run_category(
    *, framework: str, num_layers: int, hidden_size: int, is_moe: bool, seq_length: int, num_devices: int, devices_per_node: int
) -> str:
    """One of ``CATEGORIES``, the first that applies.

    A slice is a continuous-integration run or a wide model cut to a few layers; then come MoE, sequences of 32,768
    tokens and more, dense models on several nodes and on one.
    """
    if "CI" in framework or is_slice(num_layers, hidden_size):
        return "slice"
    if is_moe:
        return "moe"
    if seq_length >= LONG_SEQUENCE:
        return "long"
    return "dense_multi" if num_devices > devices_per_node else "dense_single"

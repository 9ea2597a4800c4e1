"""What an honest split leaves out together."""

from __future__ import annotations

from collections.abc import Hashable

from calibration.categories import LONG_SEQUENCE, is_slice
from calibration.run_records import RunRecord
from cost_models.shapes.workload import Workload

MODEL_KINDS = ("dense", "moe", "long", "slice")


def architecture(record: RunRecord) -> Hashable:
    """Shape of the model, not its name: one shape appears under many family names."""
    model = record.workload.model
    moe = model.moe
    experts = None if moe is None else (moe.num_experts, moe.top_k, moe.expert_ffn_hidden_size)
    return model.num_layers, model.hidden_size, model.ffn_hidden_size, model.num_attention_heads, experts


def framework(record: RunRecord) -> Hashable:
    """The software stack."""
    return record.workload.software.stack


def model_kind(workload: Workload) -> str:
    """One of ``MODEL_KINDS``, whose errors differ in size; ``slice``: a wide model cut to a few layers."""
    model = workload.model
    if is_slice(model.num_layers, model.hidden_size):
        return "slice"
    if model.moe is not None:
        return "moe"
    return "long" if workload.training.seq_length >= LONG_SEQUENCE else "dense"

"""What an honest split leaves out together."""

from __future__ import annotations

from collections.abc import Hashable

from calibration.run_records import RunRecord
from cost_models.workload import Workload


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
    """``moe``, ``long`` (32,768 tokens and more) or ``dense``: kinds whose errors differ."""
    if workload.model.moe is not None:
        return "moe"
    return "long" if workload.training.seq_length >= 32768 else "dense"

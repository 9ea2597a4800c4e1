"""Groups of runs that a split leaves out together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from calibration.records.categories import LONG_SEQUENCE, is_slice
from cost_models.shapes.workload import Workload

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

MODEL_KINDS = ("dense", "moe", "long", "slice")
PERIODS_PER_YEAR = 2  # length of a period of the rolling origin: half a year


def architecture(record: RunRecord) -> Hashable:
    """Shape of the model; not its name, since one shape appears under many names."""
    model = record.workload.model
    moe = model.moe
    experts = None if moe is None else (moe.num_experts, moe.top_k, moe.expert_ffn_hidden_size)
    return model.num_layers, model.hidden_size, model.ffn_hidden_size, model.num_attention_heads, experts


def framework(record: RunRecord) -> Hashable:
    """The software stack."""
    return record.workload.software.stack


def release(record: RunRecord) -> Hashable:
    """The software stack and its release; unknown releases count as one."""
    software = record.workload.software
    return software.stack, software.year


def chip(record: RunRecord) -> Hashable:
    """The hardware profile."""
    return record.workload.cluster.profile.name


def publication(record: RunRecord) -> Hashable:
    """The document that the run was published in."""
    return record.origin.publication


def period(record: RunRecord) -> int | None:
    """The half year of publication, counted from year 0; ``None`` where no date is known."""
    published = record.origin.published
    return None if published is None else int(published * PERIODS_PER_YEAR)


# Splits that leave out one group of runs at a time, by their name.
GROUPINGS: dict[str, Callable[[RunRecord], Hashable]] = {
    "architecture": architecture,
    "publication": publication,
    "release": release,
    "framework": framework,
    "chip": chip,
}


def model_kind(workload: Workload) -> str:
    """One of ``MODEL_KINDS``, which differ in the size of their errors; ``slice`` is a wide model cut to a few layers."""
    model = workload.model
    if is_slice(model.num_layers, model.hidden_size):
        return "slice"
    if model.moe is not None:
        return "moe"
    return "long" if workload.training.seq_length >= LONG_SEQUENCE else "dense"

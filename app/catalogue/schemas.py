"""Models and hardware as the API shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.text.json_documents import Document
from documents.said import Said


class ModelSummary(Document):
    """One preset on one line."""

    name: str
    title: Said
    num_parameters: int
    num_active_parameters: int
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    num_experts: int | None
    top_k: int | None
    vocab_size: int
    seq_length: int
    global_batch_size: int
    train_tokens: float | None
    precision: str
    basis: Said


class ModelSource(Document):
    text: str
    basis: Said
    unconfirmed: list[str]


class Published(Document):
    parameters: float | None
    active_parameters: float | None
    active_includes_embedding: bool
    source: Said


class Default(Document):
    value: Any
    basis: Said
    source: Said


class Parameters(Document):
    total: int
    active: int
    embedding: int
    head: int
    mtp: int


class DescribedModel(Document):
    """A model shape; ``model`` has the fields of the ``model`` section of a job."""

    model: dict[str, Any]
    num_parameters: Parameters


class ImportedModel(DescribedModel):
    """A model read from a file. ``notes``: its interpretation, fields that are not read, and fields that no launch file has."""

    notes: list[Said]


class PresetSources(Document):
    title: Said
    source: ModelSource
    published: Published
    default_training: dict[str, Default]


class ModelDetails(DescribedModel, PresetSources):
    """A preset with the source of each number; a job may also name it."""


class HuggingFaceConfig(BaseModel):
    """A model's ``config.json``, whole; ``notes`` of the answer name the fields that are not read."""

    model_config = ConfigDict(extra="allow")

    model_type: str = Field(min_length=1, max_length=200, description="architecture: llama, qwen2, deepseek_v3, ...")


class Tier(Document):
    name: str
    wiring: Literal["mesh", "switch", "fabric"]
    domain_devices: int | None
    bandwidth_bytes_per_s: float
    latency_s: float


class HardwareSummary(Document):
    """One profile; ``provenance`` is with its details."""

    name: str
    title: Said
    family: str
    status: Literal["validated", "unvalidated", "roadmap"]
    device: str
    matmul_flops_per_s: dict[str, float]
    hbm_bytes: float
    hbm_bytes_per_s: float
    devices_per_node: int
    tiers: list[Tier]


class Stated(Document):
    """A number as its source states it."""

    value: float
    unit: str
    source: Said
    basis: Said
    note: Said


class MeasuredCollective(Document):
    """Times of one collective over one group; ``message_bytes``: before an all-gather, after a reduce-scatter, else both."""

    tier: str
    op: str
    group_size: int
    message_bytes: list[float]
    time_s: list[float]
    source: Said


class HardwareDetails(HardwareSummary):
    achievable_matmul_flops_per_s: dict[str, float]
    vector_flops_per_s: float
    num_matmul_cores: int
    compute_capability: float | None
    usable_hbm_bytes: float
    host_link_bytes_per_s: float
    host_memory_bytes: float | None
    host_memory_bytes_per_s: float | None
    context_bytes: float
    communicator_bytes: float
    sequential_tiers: bool
    power_w: float | None
    price_usd: float | None
    notes: list[Said]
    collectives: list[MeasuredCollective]
    provenance: dict[str, Stated]

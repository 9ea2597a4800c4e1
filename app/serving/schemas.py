"""Schemas of serving estimates and searches."""

from __future__ import annotations

from pydantic import Field

from app.answers.schemas import Answer, PricedWith
from app.text.json_documents import Document
from documents.said import Said


class LayoutDocument(Document):
    """Layout of one instance of a pool."""

    tp: int
    pp: int
    dp: int
    ep: int
    redundant_experts: int
    num_devices: int


class PoolMemory(Document):
    """Memory of the fullest device of a pool."""

    limit_bytes: float = Field(description="what the engine may fill")
    weights_bytes: float
    workspace_bytes: float
    communicator_bytes: float
    cache_bytes: float = Field(description="left for keys and values")


class PoolDocument(Document):
    """Pool of instances with one layout."""

    layout: LayoutDocument
    instances: int
    num_devices: int
    time_s: float = Field(description="of a pass of prefill, or of a step of decode")
    parts_s: dict[str, float] = Field(description="exposed time by part; sums to time_s")
    use_fraction: float = Field(description="share of time that the pool works at what the service lets through")
    tokens_per_s: float = Field(description="of the pool alone: input tokens of prefill, output tokens of decode")
    tokens_per_s_per_device: float
    requests_per_pass: float | None = Field(default=None, description="of prefill: prompts that pass together")
    in_flight: float | None = Field(default=None, description="of decode: requests of an instance")
    kv_capacity_tokens: float | None = Field(default=None, description="of an instance; null: it keeps nothing a token")
    kv_bytes_per_token: float = Field(description="on a device")
    requests_held: int = Field(description="of an instance, at their mean length")
    memory: PoolMemory


class ServiceNumbers(Document):
    """Latency and throughput of the service."""

    ttft_s: float
    tpot_s: float
    requests_per_s: float
    tokens_per_s: float = Field(description="output tokens")
    tokens_per_s_per_device: float = Field(description="output tokens over all devices of the cluster")
    bound_by: Said = Field(description="prefill or decode: the pool, or the part of instances that do both, that sets the rate")
    bottleneck: str = Field(description="the largest part of that pool's time")
    keeps_limits: bool


class ServingDocument(Answer):
    """Response of `POST /v1/serving/estimates`, and output of `meshplan serving estimate --json`."""

    version: str
    priced_with: PricedWith
    service: ServiceNumbers
    prefill: PoolDocument | None = Field(description="null: decode instances prefill too")
    decode: PoolDocument


class ServingPlanDocument(Document):
    """A plan of a serving search."""

    rank: int
    service: ServiceNumbers
    prefill_instances: int
    prefill: LayoutDocument | None
    decode_instances: int
    decode: LayoutDocument
    in_flight: float = Field(description="requests of a decode instance")
    num_devices: int = Field(description="that work; the others of the cluster stay idle")


class ServingSearchDocument(Answer):
    """The plans of a cluster, best first by output tokens a second."""

    version: str
    priced_with: PricedWith
    layouts: int = Field(description="instances tried")
    too_large: int = Field(description="of these, whose weights do not fit")
    too_slow: int = Field(description="of these, that keep no limit")
    plans: list[ServingPlanDocument]
    best: ServingDocument | None = Field(description="the first plan in full")

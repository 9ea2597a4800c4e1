"""A serving job: every field, its bounds and its default."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.jobs.assumed import AssumedFields
from app.jobs.fields import ClusterSection, SoftwareSection
from cost_models.serving.engine import CACHE_BYTES, WEIGHT_BYTES, Overlap
from cost_models.serving.memory import DEFAULT_PASS_TOKENS, DEFAULT_UTILISATION
from cost_models.serving.service import MAX_IN_FLIGHT
from documents.bounds import Degree, Devices, Name
from documents.checking import OneOf, Section

MAX_LENGTH = 10_000_000  # tokens of a prompt or response
MAX_REDUNDANT = 65_536
DEFAULT_ACCEPTANCE = 0.7  # acceptance of a draft token [cloudmatrix384]
SHOWN_PLANS = 10
MAX_SHOWN_PLANS = 100

Tokens = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
Limit = Annotated[float, Field(gt=0, le=1e6)]


class InstanceSection(Section):
    """The instances of a pool, which have one layout."""

    instances: Devices = 1
    tp: Degree = Field(default=1, description="devices that share the heads of a replica")
    pp: Degree = Field(default=1, description="stages")
    dp: Degree = Field(default=1, description="replicas of attention in an instance")
    ep: Degree | None = Field(
        default=None, description="1: experts are sliced over tp; tp x dp: spread. Default: spread where dp is above 1"
    )
    redundant_experts: int = Field(default=0, ge=0, le=MAX_REDUNDANT, description="copies of busy experts, in all of a stage")


class ServingSection(Section):
    """Requests, limits, engine and layouts."""

    prompt_tokens: Tokens = Field(description="of a request, in the mean")
    response_tokens: Tokens = Field(description="of a request, in the mean")
    cached_prompt_fraction: float = Field(default=0.0, ge=0, le=1, description="of a prompt, whose keys and values are at hand")
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=MAX_IN_FLIGHT,
        description="requests that decode at once; default: the most that limits and memory allow",
    )
    ttft_limit_s: Limit | None = Field(default=None, description="time to the first token; default: none")
    tpot_limit_s: Limit | None = Field(default=None, description="time per output token after it; default: none")
    precision: Annotated[str, OneOf(*WEIGHT_BYTES)] = Field(default="bf16", description="of linear layers, weights and inputs")
    cache_precision: Annotated[str, OneOf(*CACHE_BYTES)] = Field(default="bf16", description="of keys and values")
    execution: Literal["graph", "eager"] = Field(default="graph", description="eager: the host dispatches every kernel of a step")
    asynchronous: bool = Field(default=False, description="the engine schedules a step while another runs")
    overlap: Annotated[str, OneOf(*(overlap.value for overlap in Overlap))] = Field(
        default=Overlap.NONE.value,
        description="of spread experts, with half batches: exchange: tokens travel while the other half computes; streams: "
        "attention beside experts on cores of their own; fastest: of these",
    )
    draft_tokens: int = Field(default=0, ge=0, le=16, description="proposed a step, by multi-token prediction or a look-up")
    acceptance: float = Field(
        default=DEFAULT_ACCEPTANCE, ge=0, le=1, description="of a draft token whose predecessors were accepted"
    )
    draft_layers: int = Field(default=1, ge=0, le=16, description="run for each draft token; 0: drafts are looked up")
    balanced_experts: bool = Field(default=False, description="every device gets as many tokens for its experts")
    shared_experts_apart: bool = Field(default=False, description="shared experts lie on devices of their own, as routed ones do")
    utilisation: float = Field(default=DEFAULT_UTILISATION, gt=0, le=1, description="of usable memory that the engine may fill")
    pass_tokens: Tokens = Field(default=DEFAULT_PASS_TOKENS, description="of prefill that pass a replica at once")
    prefill: InstanceSection | None = Field(default=None, description="a pool of its own; default: decode instances prefill too")
    decode: InstanceSection | None = Field(default=None, description="what `serving estimate` prices; `serving search` finds it")
    top: int = Field(default=SHOWN_PLANS, ge=1, le=MAX_SHOWN_PLANS, description="plans that a search reports")


class ServingJobDocument(Section):
    """A serving job."""

    schema_version: Literal[1] = 1
    model: Name | dict[str, Any] = Field(description="a preset's name, the path of a Hugging Face config.json, or a mapping")
    cluster: ClusterSection | Name = Field(description="a mapping, or a hardware profile's name where flags give the rest")
    software: SoftwareSection | Name = Field(
        default=SoftwareSection(), description="whose calibration stands behind the prices; a mapping, or a stack's name"
    )
    serving: ServingSection
    assumed: AssumedFields = Field(default={}, description="of a job as an answer shows it")

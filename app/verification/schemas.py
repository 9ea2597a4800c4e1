"""The JSON document of a verification, and the counts that a run of the framework gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.text.json_documents import Document
from documents.said import Said

Unit = Literal["parameters", "bytes", "FLOPs"]


class Failure(BaseModel):
    """What stopped a rank."""

    model_config = ConfigDict(extra="ignore")
    stage: str
    kind: str
    message: str
    place: str = ""


class Call(BaseModel):
    """Calls that are alike: ``bytes`` of the whole tensor, the shards of all ranks together."""

    model_config = ConfigDict(extra="ignore")
    phase: str
    kind: str
    group: str
    size: int = Field(ge=1, le=10_000_000)
    bytes: int = Field(ge=0)
    dtype: str
    count: int = Field(ge=0)


class CountedRank(BaseModel):
    """Counts of one rank, as the framework's process wrote them."""

    model_config = ConfigDict(extra="ignore")
    rank: int = Field(ge=0)
    failed: Failure | None = None
    num_microbatches: int = 0
    parameters: list[dict[str, int]] = []
    states: dict[str, int] = {}
    dummies: int = 0
    built: int = 0
    peak: dict[str, Any] = {}
    after_step: int = 0
    held: list[tuple[str, int]] = []
    at_most: list[tuple[int, int, str]] = []
    layers: dict[str, dict[str, int]] = {}
    tensors: dict[str, list[tuple[int, str]]] = {}
    calls: list[Call] = []
    flops: dict[str, int] = {}
    assumed: dict[str, int] = {}
    kernels: dict[str, dict[str, Any]] = {}
    cpu_seconds: float = 0.0


class CountsDocument(BaseModel):
    """All ranks of one run of the framework."""

    model_config = ConfigDict(extra="ignore")
    protocol: Literal[1]
    python: str
    torch: str | None
    seconds: float
    ranks: list[CountedRank] = Field(min_length=1, max_length=100_000)


class Row(Document):
    """One number of one rank; ``ratio`` is predicted / counted, ``None`` if nothing was counted."""

    quantity: str = Field(description="parameters, weights, sent by a group, and so on")
    detail: str = Field(description="kind of layer or of group; empty without one")
    unit: Unit
    counted: float
    predicted: float
    ratio: float | None
    tolerance: float = Field(description="greatest |predicted / counted - 1|; 0: integers that must be equal")
    within: bool


class Tensor(Document):
    """A tensor that a layer keeps for its backward."""

    label: str = Field(description="modules around the operator that made it")
    bytes: int


class Check(Document):
    """A check of the run itself, before its counts are compared."""

    name: str
    passed: bool
    sentence: Said


class RankVerification(Document):
    """Counted beside predicted for one pipeline rank."""

    pipeline_rank: int
    rows: list[Row] = Field(description="largest disagreement first")
    left_out: list[Row] = Field(description="counted, and left out of the price on purpose")
    checks: list[Check]
    assumed: dict[str, int] = Field(description="answers that were assumed where the framework read values, by line")
    cpu_seconds: float


class VerificationDocument(Document):
    """Counts of the framework beside the price of the same plan."""

    meshplan_version: str
    framework: str
    job: dict[str, Any]
    num_microbatches: int = Field(description="of the step that was run and priced; the plan's own step has as many or more")
    passed: bool
    ranks: list[RankVerification]
    layers: dict[str, list[Tensor]] = Field(description="tensors of one layer of each kind that disagrees, largest first")
    kernels: dict[str, str] = Field(description="kernels that stood in, and what each keeps, with the line of its source")
    python: str
    torch: str | None
    seconds: float

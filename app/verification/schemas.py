"""The JSON document of a verification, and the counts that a run of the framework gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.text.json_documents import Document
from documents.bounds import MAX_LINE
from documents.said import Said

Unit = Literal["parameters", "bytes", "FLOPs"]


MOST_SECONDS = 1e9
Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Word = Annotated[str, Field(max_length=MAX_LINE, pattern=r"^[^\x00-\x1f]*$")]
Size = Annotated[str, Field(pattern=r"^-?[0-9]{1,18}$")]


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
    phase: Word
    kind: Word
    group: Word
    size: int = Field(ge=1, le=10_000_000)
    bytes: Count = Field(ge=0)
    dtype: Word
    count: Count = Field(ge=0)


class Peak(BaseModel):
    """Most bytes at once: during the passes, and during the optimizer's step."""

    model_config = ConfigDict(extra="ignore")
    passes: Count = 0
    at: Word = ""
    after: Count = 0
    optimizer: Count = 0


class Kernel(BaseModel):
    """A kernel that stood in, and what it keeps."""

    model_config = ConfigDict(extra="ignore")
    count: Count = 0
    keeps: Word = ""


class CountedRank(BaseModel):
    """Counts of one rank, as the framework's process wrote them."""

    model_config = ConfigDict(extra="ignore")
    rank: int = Field(ge=0, lt=2**31)
    failed: Failure | None = None
    num_microbatches: Count = 0
    parameters: list[dict[Word, Count]] = []
    states: dict[Word, Count] = {}
    dummies: Count = 0
    built: Count = 0
    peak: Peak = Peak()
    after_step: Count = 0
    held: list[tuple[Word, Count]] = []
    at_most: list[tuple[Count, Count, Word]] = []
    layers: dict[Word, dict[Size, Count]] = {}
    tensors: dict[Word, list[tuple[Count, Word]]] = {}
    calls: list[Call] = []
    flops: dict[Word, Count] = {}
    assumed: dict[Word, Count] = {}
    kernels: dict[Word, Kernel] = {}
    cpu_seconds: float = Field(0.0, ge=0, le=MOST_SECONDS)


class CountsDocument(BaseModel):
    """All ranks of one run of the framework."""

    model_config = ConfigDict(extra="ignore")
    protocol: Literal[1]
    python: Word
    torch: Word | None
    seconds: float = Field(ge=0, le=MOST_SECONDS)
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


class KeptVerification(Document):
    """The verification that is kept with a plan of a study; nulls before there is one."""

    schema_version: Literal[1]
    plan_id: str
    created_at_s: float | None
    verification: VerificationDocument | None

"""Schemas of the comparison of a measured step with the predicted step."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.answers.schemas import Answer, EstimateNumbers, PricedWith
from app.answers.strategies import StrategyDocument
from app.text.json_documents import Document
from documents.said import Said


class TracedStep(Document):
    """The step that was compared."""

    source: Literal["step_trace_time.csv", "torch.profiler", "torch_npu.profiler", "meshplan"]
    rank: int | None = Field(description="null where the file does not say")
    step: int | None = Field(description="null where the file marks no steps")
    step_time_s: float = Field(gt=0)
    ranks: list[int] = Field(description="that the file holds")
    step_times_s: dict[str, float] = Field(description="of this rank, by the number of the step")
    median_step_time_s: float


class ComparedPart(Document):
    """A part of the step; `measured_s` and `predicted_s` of all parts sum to the step times."""

    part: str = Field(description="parts that the trace does not tell apart are joined by `+`")
    of: dict[str, float] = Field(description="the predicted time by the names of `time_breakdown_s`")
    measured_s: float
    predicted_s: float
    difference_s: float = Field(description="measured less predicted")
    measured_masked_s: float = Field(description="beside it, outside the sum: what ran while something else did")
    predicted_masked_s: float


class UnknownKernelDocument(Document):
    name: str
    count: int
    time_s: float


class TraceDocument(Answer):
    """Output of `meshplan compare-trace --json`."""

    priced_with: PricedWith
    strategy: StrategyDocument
    estimate: EstimateNumbers
    trace: TracedStep
    difference_s: float = Field(description="measured step less the predicted one")
    difference_fraction: float = Field(description="of the predicted step")
    accounted: Said = Field(description="which parts account for it, as a sentence")
    parts: list[ComparedPart] = Field(description="the largest disagreement first")
    unknown_kernels: list[UnknownKernelDocument] = Field(description="all that no kind is known for, most time first")
    notes: list[Said] = Field(description="what could not be told, and how the prediction was dealt to the trace's parts")

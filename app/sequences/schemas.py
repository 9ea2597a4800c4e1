"""Schemas of a request for a sequence plan, and of the plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.answers.schemas import Answer, PricedWith
from app.answers.strategies import StrategyDocument
from app.jobs.fields import JobDocument
from app.text.json_documents import Document
from documents.bounds import MAX_COUNT, MAX_SEQ_LENGTH
from documents.checking import Section

MAX_STEPS = 1000
NUM_STEPS = 20
MAX_SEED = 2**32 - 1
MAX_SERVED_LENGTHS = 500_000
MAX_SERVED_BINS = 10_000

Length = Annotated[int, Field(ge=1, le=MAX_SEQ_LENGTH)]


class SequenceTerms(Section):
    """Number of steps that are compared."""

    steps: int = Field(default=NUM_STEPS, ge=1, le=MAX_STEPS, description="steps that are filled with samples")
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="of samples that are drawn")


class SequencePlanRequest(JobDocument):
    """A job with a strategy, and the lengths of its samples: a list or a histogram."""

    lengths: Annotated[list[Length], Field(min_length=1, max_length=MAX_SERVED_LENGTHS)] | None = Field(
        default=None, description="of samples in their order; drawn from where they fill no step"
    )
    histogram: dict[str, Annotated[int, Field(ge=0, le=MAX_COUNT)]] | None = Field(
        default=None, max_length=MAX_SERVED_BINS, description="samples by length"
    )
    terms: SequenceTerms = SequenceTerms()


class OrderDocument(Document):
    """Means over steps for one order of the sequences."""

    replica_load: float = Field(description="attention of the fullest replica over the mean")
    micro_batch_load: float = Field(description="attention of the fullest micro batch over the mean")
    step_time_s: float
    exposed_s: float = Field(description="above a step whose attention lies evenly")
    slowest_step_time_s: float = Field(description="of all steps that were looked at")


class SequencePlanDocument(Answer):
    """Response of `POST /v1/sequences/plans`, and output of `meshplan sequences plan --json`."""

    version: str
    priced_with: PricedWith
    strategy: StrategyDocument
    num_steps: int
    num_replicas: int
    num_microbatches: int
    is_drawn: bool = Field(description="samples were drawn; else they are those of the file, in its order")
    mean_squared_length_fraction: float = Field(description="of these steps; what a job takes")
    mean_length: float = Field(description="of the samples")
    balanced_step_time_s: float
    before: OrderDocument
    after: OrderDocument
    recovered_fraction: float | None = Field(description="of the exposed time, by the order; null where none was exposed")

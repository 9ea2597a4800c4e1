"""What ``POST /v1/estimates`` takes and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.answers.schemas import Answer, Document, EstimateNumbers
from app.jobs.fields import JobDocument, StrategySection

MAX_STRATEGIES = 10_000


class EstimateRequest(JobDocument):
    """A job with one strategy to price, or with a list of them."""

    strategies: Annotated[list[StrategySection], Field(min_length=1, max_length=MAX_STRATEGIES)] | None = Field(
        default=None, description="in place of strategy; answered in the same order"
    )
    simulate: bool = Field(default=False, description="plays each step task by task in place of the closed form")


class RefusedStrategy(Document):
    """In place of an estimate: why this strategy cannot run. The others are priced all the same."""

    refused: str
    rule: str | None = Field(description="the legality rule that it breaks; null where its numbers contradict each other")


class EstimatesDocument(Answer):
    """The answer to a list of strategies."""

    estimates: list[EstimateNumbers | RefusedStrategy] = Field(description="one entry a strategy, in the order of the request")

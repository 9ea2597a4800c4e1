"""The sizes at which a job is swept: every field and its bounds."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from documents.bounds import MAX_VALUES, Devices, GlobalBatch, Name, SeqLength
from documents.checking import Section
from documents.sentences import Sentence


class DeviceRange(Section):
    """Device counts from ``min`` up to ``max``: doubled, or ``step`` apart."""

    min: Devices
    max: Devices
    step: Devices | None = None

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(Sentence("min {} is above max {}.", self.min, self.max))
        return self


def _some(kind: Any) -> Any:
    return kind | Annotated[list[kind], Field(min_length=1, max_length=MAX_VALUES)] | None


class SweepSection(Section):
    """Values to try for each field; other fields have the value of the job."""

    devices: Devices | Annotated[list[Devices], Field(min_length=1, max_length=MAX_VALUES)] | DeviceRange | None = Field(
        default=None, description="counts; {min, max}: min, doubled up to max; {min, max, step}: step apart"
    )
    devices_at_most: Devices | None = Field(
        default=None, description="counts above it are left out; without devices: it and its halves down to a sixteenth"
    )
    global_batch_size: _some(GlobalBatch) = None  # type: ignore[valid-type]
    seq_length: _some(SeqLength) = None  # type: ignore[valid-type]
    hardware: _some(Name) = None  # type: ignore[valid-type]
    software: _some(Name | dict[str, Any]) = Field(  # type: ignore[valid-type]
        default=None, description="stacks, or parts of the job's `software`"
    )
    deadline_confidence: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="with which search.deadline_days must be met, by the error of the step; null: the days as predicted",
    )
    scale_batch: bool = Field(
        default=False, description="the batch is that of the smallest count and grows with the devices (weak scaling)"
    )

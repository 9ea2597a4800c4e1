"""The source of a published recipe, as answers give it."""

from __future__ import annotations

from pydantic import Field

from app.text.json_documents import Document


class Publication(Document):
    """The recipe that a vendor publishes for the model, its devices and about their number."""

    vendor: str
    title: str
    source: str = Field(description="address of the recipe, at a commit")
    date: str
    num_devices: int = Field(description="that it is published for; other numbers change data parallelism")
    seq_length: int
    global_batch_size: int

"""Tokens of each expert in a job: of all layers, of each layer, or the name of a file that has them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from documents.bounds import MAX_COUNT, MAX_EXPERTS, Name

MAX_COUNTED_LAYERS = 1024


def _form_of_counts(value: object) -> str:
    if isinstance(value, list):
        return "by_layer" if value and isinstance(value[0], list) else "of_all"
    return "file"


Counts = Annotated[list[Annotated[int, Field(ge=0, le=MAX_COUNT)]], Field(min_length=1, max_length=MAX_EXPERTS)]
CountsByLayer = Annotated[list[Counts], Field(min_length=1, max_length=MAX_COUNTED_LAYERS)]
# Told apart by their form, so that what is wrong is said of the form that was given.
ExpertCountsField = Annotated[
    Annotated[Counts, Tag("of_all")] | Annotated[CountsByLayer, Tag("by_layer")] | Annotated[Name, Tag("file")],
    Discriminator(_form_of_counts),
]

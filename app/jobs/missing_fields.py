"""Missing fields of a job's sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.catalogue.models.shape import ModelSection
from documents.checking import Section
from documents.sentences import Sentence, joined

ALSO = Sentence(" Also missing:")


def lacking(section: type[Section], given: Mapping[str, Any], where: str, labels: Mapping[str, str]) -> list[str]:
    needed = [name for name, field in section.model_fields.items() if field.is_required() and given.get(name) is None]
    return [labels.get(path := Sentence("{}.{}", where, name), path) for name in needed]


def with_what_a_model_lacks(sentence: str, model: object, labels: Mapping[str, str]) -> str:
    """A sentence on missing fields of the cluster, with the missing fields of the model."""
    names = lacking(ModelSection, model, "model", labels) if isinstance(model, Mapping) else []
    if not names or ": missing; " not in sentence:
        return sentence
    return sentence.removesuffix(".") + ("," if ALSO in sentence else Sentence(".{}", ALSO)) + f" {joined(', ', names)}."

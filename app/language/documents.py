"""Documents in a reader's language: their sentences are translated; names, numbers and what users wrote stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.language.choice import Language, cited, said

# Fields that hold sentences, wherever they stand.
SENTENCES = frozenset(
    """
    accounted against_best assumptions best_change bound_by change changes computed_by detail error example extrapolated
    hint job_changes meaning mfu_convention nearest next_plan not_expressed note notes objective one_change problem
    reason reasons refused remark replaced rules scope sentence sentences tie title tokens_per_s_definition tool_changes
    unmeasured violations warnings why why_none would_fit
    """.split()
)
CITED = frozenset({"basis", "source"})  # where a number comes from: a name, a citation, or some words
# What users gave is below these, in words of their own, and data that is held against its hash.
GIVEN = frozenset(
    {
        "assumed",
        "baseline_job",
        "config",
        "hardware_profile",
        "job",
        "priced_with",
        "record",
        "script",
        "strategy",
        "tensor_plan",
    }
)
OF_A_STUDY = "owner"  # beside it, notes are its owner's


def translated(document: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """The document with its sentences in that language; itself where that is English."""
    return dict(document) if language == "en" else _mapping(document, language)


def _mapping(mapping: Mapping[str, Any], language: Language) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in mapping.items():
        is_owners = OF_A_STUDY in mapping and name in ("note", "notes")
        if name in GIVEN or is_owners:
            found[name] = value
        elif name in CITED and isinstance(value, str):
            found[name] = cited(value, language)
        elif name in SENTENCES:
            found[name] = _sentences(value, language)
        else:
            found[name] = _other(value, language)
    return found


def _sentences(value: Any, language: Language) -> Any:
    """A sentence, several, or some by name."""
    if isinstance(value, str):
        return said(value, language)
    if isinstance(value, list):
        return [_sentences(each, language) for each in value]
    if isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()):
        return {name: said(each, language) for name, each in value.items()}
    return _other(value, language)


def _other(value: Any, language: Language) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, language)
    if isinstance(value, list):
        return [_other(each, language) for each in value]
    return value


def problem(document: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """As ``translated``, of a problem document: a hint that ends its detail is the end of the translated detail, too."""
    found = translated(document, language)
    detail, hint = str(document["detail"]), str(document["hint"])
    if language != "en" and "; " in detail and detail.rpartition("; ")[2].lower() == hint.lower():
        found["hint"] = found["detail"].rpartition("；")[2]
    return found

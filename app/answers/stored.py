"""The answer of a search in the form that a study stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.schemas import Answer, SearchDocument
from app.jobs.job import SCHEMA_VERSION
from documents.hashing import fingerprint
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile

FOUND = [name for name in SearchDocument.model_fields if name not in {*Answer.model_fields, "version", "priced_with"}]


def search_document_of(
    study: Mapping[str, Any], rejections: Sequence[Any], plans: Sequence[Any], **instead: Any
) -> SearchDocument:
    """Result of a stored search, as ``meshplan search --json`` prints it.

    ``study`` has a result; ``instead`` replaces fields of it. Raises ``ValidationError`` if another version stored the study.
    """
    found = {**study["result"], "rejections": rejections, "plans": plans}
    profile = parse_profile(study["hardware_profile"], Sentence("study {}", study["id"]))
    return SearchDocument.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            **{name: study[name] for name in ("version", "job", "assumptions", "warnings")},
            "priced_with": {
                "version": study["version"],
                "calibration": study["calibration"].get("fingerprint"),
                "hardware_profile": fingerprint(profile),
            },
            **{name: found[name] for name in FOUND if name in found},  # an older study has fewer
            **instead,
        }
    )

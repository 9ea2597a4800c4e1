"""Keys of a run record that no reader takes; each gets a sentence, so that nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from calibration.records.sections import (
    AdapterSection,
    ClusterSection,
    MeasuredSection,
    MlaSection,
    ModelSection,
    MoeSection,
    RecomputeSection,
    SoftwareSection,
    StrategySection,
    TrainingSection,
    quoted,
)
from documents.sentences import Sentence

_SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelSection,
    "model.mla": MlaSection,
    "model.moe": MoeSection,
    "cluster": ClusterSection,
    "training": TrainingSection,
    "training.adapter": AdapterSection,
    "strategy": StrategySection,
    "strategy.recompute": RecomputeSection,
    "software": SoftwareSection,
    "measured": MeasuredSection,
}
# Keys that describe a run and do not affect its prediction.
_DESCRIBES = {
    "": {"id", "tier", "is_latest_for_config", "config_complete", "ranking_group", "suspect", "source", "notes"},
    "model": {"name", "family"},
    "cluster": {"published_server", "network"},
    "strategy.recompute": {"detail"},
    "measured": {"basis", "step_time_cv"},
}
_LISTS = (
    ("strategy", "features"),
    ("strategy.recompute", "modules"),
    ("software", "raw_flags"),
    ("training.adapter", "target_modules"),
)
_MOST = 20  # sentences of one record


def unread_sentences(row: Mapping[str, object]) -> list[str]:
    """A sentence for each key of the record that is not read, and for items of name lists that are not text."""
    found = [*_unread(row, "", {name for name in _SECTIONS if "." not in name})]
    for name, section in _SECTIONS.items():
        stated = _stated(row, name)
        known = set(section.model_fields)
        if stated is not None:
            found += _unread(stated, name, known)
    for name, field in _LISTS:
        value = (_stated(row, name) or {}).get(field)
        if value is not None and not isinstance(value, str):
            others = [item for item in value if not isinstance(item, str)] if isinstance(value, list) else [value]
            found += [Sentence("{}.{}: {} is no text, left out.", name, field, quoted(item)) for item in others if item != []]
    more = len(found) - _MOST
    return found if more <= 0 else [*found[:_MOST], Sentence("{} more of its entries are not read.", more)]


def _stated(row: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    found: object = row
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _unread(stated: Mapping[str, object], name: str, known: set[str]) -> Iterator[str]:
    for key, value in stated.items():
        if value is not None and key not in known and key not in _DESCRIBES.get(name, ()):
            yield Sentence("{} is not read.", quoted(Sentence("{}.{}", name, key) if name else key).strip("\"'"))

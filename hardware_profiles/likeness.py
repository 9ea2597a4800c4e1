"""A profile that is another one but for some numbers: ``like: NAME`` and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from documents.errors import did_you_mean, show
from documents.sentences import Sentence, joined
from hardware_profiles.schema import HardwareProfile, ProfileError, Status
from hardware_profiles.writer import profile_document

LIKE = "like"
_BY_PRECISION = ("matmul_flops_per_s", "achievable_matmul_flops_per_s")


def filled_in(document: Mapping[str, Any], base: HardwareProfile) -> dict[str, Any]:
    """The whole document of a profile that states its differences from ``base``.

    A number takes the place of the base's, ``null`` removes one that is optional, rates are replaced precision by precision.
    ``tiers`` may be a list, which replaces all, or a mapping by name of what differs. A tier that differs loses its curves.

    Raises ``ProfileError`` for a tier that the base lacks.
    """
    own = {key: value for key, value in document.items() if key not in (LIKE, "tiers", *_BY_PRECISION)}
    result = {**profile_document(base), "status": str(Status.UNVALIDATED), **own}
    for key in _BY_PRECISION:
        if isinstance(rates := document.get(key), Mapping):
            result[key] = {**result.get(key, {}), **rates}
            result[key] = {precision: rate for precision, rate in result[key].items() if rate is not None}
        elif key in document:
            result[key] = rates
    if isinstance(tiers := document.get("tiers"), Mapping):
        result["tiers"] = _tiers(tiers, result["tiers"], base)
    elif "tiers" in document:
        result["tiers"] = tiers
    return {key: value for key, value in result.items() if value is not None}


def _tiers(changes: Mapping[str, Any], tiers: list[dict[str, Any]], base: HardwareProfile) -> list[Any]:
    names = [tier["name"] for tier in tiers]
    for name, change in changes.items():
        if name not in names:
            hint = did_you_mean(str(name), names)
            raise ProfileError(
                Sentence("tiers: {} has no tier {}{}; it has {}.", base.name, show(name), hint, joined(", ", names))
            )
        if not isinstance(change, Mapping):
            raise ProfileError(Sentence("tiers.{}: {} is not allowed; give a mapping of what differs.", name, show(change)))
    return [
        {**{key: value for key, value in tier.items() if key != "curves"}, **changes[tier["name"]]}
        if tier["name"] in changes
        else tier
        for tier in tiers
    ]


def first_draft(name: str, base: HardwareProfile) -> str:
    """Text of a profile file that is like ``base``, with the numbers that sites differ in as comments to begin with."""
    document = profile_document(base)
    lines = [
        f"# {name}: as {base.name}, but for the numbers that stand here. Units and fields: docs/hardware.md.",
        f"{LIKE}: {base.name}",
        f"name: {name}",
        f'title: "{name}, like {base.name}"',
        "# Uncomment what differs, with your own value, source and basis (measured, vendor, inferred, assumed):",
        *([f"# compute_capability: {_inline(document['compute_capability'])}"] if "compute_capability" in document else []),
        f"# usable_hbm_bytes: {_inline(document['usable_hbm_bytes'])}",
        "# tiers: # from the inside out; a tier that differs loses the curves that were measured elsewhere",
    ]
    for tier in document["tiers"]:
        lines += [f"#   {tier['name']}:", f"#     bandwidth_bytes_per_s: {_inline(tier['bandwidth_bytes_per_s'])}"]
        if "link_bytes_per_s" in tier:
            lines.append(f"#     link_bytes_per_s: {_inline(tier['link_bytes_per_s'])}")
    return "\n".join([*lines, ""])


def _inline(stated: Mapping[str, Any]) -> str:
    return f'{{value: {stated["value"]:g}, unit: {stated["unit"]}, source: "{stated["source"]}", basis: {stated["basis"]}}}'

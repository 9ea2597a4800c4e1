"""A user's own hardware profile: a known one with the curves of their collective benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from app.errors import InputError, show
from calibration.collective_logs import MAX_LOG_BYTES, CollectiveLog, CollectiveLogError, parse_collective_log
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile_text
from hardware_profiles.schema import HardwareProfile, ProfileError
from hardware_profiles.writer import profile_document

MAX_RANKS = 100_000


def measured_profile(reference: str, name: str, curves: Sequence[str]) -> str:
    """The profile as YAML, under a new name, with each curve in the innermost tier that joins its ranks."""
    try:
        profile = catalogue.profile(reference)
    except ProfileError as error:
        raise InputError(str(error)) from None
    document: dict[str, Any] = profile_document(profile)
    document["name"] = name
    for given in curves:
        path, log = _read(given)
        tier = document["tiers"][_tier_index(profile, log.group_size)]
        others = [c for c in tier.get("curves", []) if (c["op"], int(c["group_size"]["value"])) != (log.op, log.group_size)]
        tier["curves"] = [*others, _curve(log, path.name)]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=130)
    try:
        parse_profile_text(text, f"{name}.yaml")
    except ProfileError as error:
        raise InputError(f"--curve: {error}") from None
    return text


def _read(given: str) -> tuple[Path, CollectiveLog]:
    what, equals, file = given.partition("=")
    op, colon, ranks = what.partition(":")
    if not (equals and colon and file and ranks.isascii() and ranks.isdigit() and 2 <= int(ranks[:9]) <= MAX_RANKS):
        raise InputError(f"--curve: {show(given)} is not allowed; give OPERATION:RANKS=LOG, as in all_reduce:8=all_reduce.log.")
    path = Path(file)
    try:
        if path.stat().st_size > MAX_LOG_BYTES:
            raise InputError(f"--curve: {path} is larger than the {MAX_LOG_BYTES} bytes that a log may have.")
        return path, parse_collective_log(path.read_text(encoding="utf-8", errors="replace"), op, int(ranks))
    except OSError as error:
        raise InputError(f"--curve: {path} cannot be read: {error.strerror or error}.") from None
    except CollectiveLogError as error:
        raise InputError(f"--curve: {path}: {error}") from None


def _tier_index(profile: HardwareProfile, group_size: int) -> int:
    joining = (i for i, tier in enumerate(profile.tiers) if tier.domain_devices is None or group_size <= tier.domain_devices)
    return next(joining, len(profile.tiers) - 1)


def _curve(log: CollectiveLog, file: str) -> dict[str, Any]:
    stated = {"source": "own-measurement", "basis": "measured", "note": f"from {file}"}
    return {
        "op": log.op,
        "group_size": {"value": log.group_size, "unit": "1", **stated},
        "message_bytes": {"value": list(log.message_bytes), "unit": "B", **stated},
        "time_s": {"value": list(log.time_us), "unit": "us", **stated},
    }

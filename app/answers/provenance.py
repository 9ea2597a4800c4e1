"""What stood behind a price: the version, the calibration and the hardware profile, by hashes that a later run compares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from calibration.files import Calibration, calibration_for
from cost_models.shapes.workload import Workload
from hardware_profiles.schema import CollectiveCurve, HardwareProfile
from meshplan import __version__

# What says where a number comes from and changes no price.
_PROSE = {HardwareProfile: ("title", "notes", "provenance", "status"), CollectiveCurve: ("source",)}


def priced_with(workload: Workload, own: Sequence[Calibration] = ()) -> dict[str, Any]:
    """The hashes that an answer carries."""
    return {
        "version": __version__,
        "calibration": calibration_for(workload, own).fingerprint,
        "hardware_profile": profile_fingerprint(workload.cluster.profile),
    }


def profile_fingerprint(profile: HardwareProfile) -> str:
    """Twelve hexadecimal digits that name the profile's numbers."""
    text = json.dumps(_numbers(profile), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(entry) for entry in value]
    if is_dataclass(value):
        prose = _PROSE.get(type(value), ())
        return {field.name: _numbers(getattr(value, field.name)) for field in fields(value) if field.name not in prose}
    return value.value if isinstance(value, Enum) else value

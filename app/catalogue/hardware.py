"""Hardware profiles as documents."""

from __future__ import annotations

from dataclasses import asdict

from app.catalogue.schemas import HardwareDetails, HardwareSummary
from hardware_profiles.schema import HardwareProfile


def summary(profile: HardwareProfile) -> HardwareSummary:
    return HardwareSummary.model_validate(profile, from_attributes=True)


def details(profile: HardwareProfile) -> HardwareDetails:
    """All fields of a profile; ``provenance`` has each number as its source states it."""
    curves = [{"tier": tier.name, **asdict(curve)} for tier in profile.tiers for curve in tier.curves]
    known = {name: value for name, value in vars(profile).items() if name in HardwareDetails.model_fields}
    return HardwareDetails.model_validate({**known, "collectives": curves}, from_attributes=True)

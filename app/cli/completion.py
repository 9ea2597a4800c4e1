"""Names that a shell completes: presets, profiles and frameworks. The shell completes paths if no name matches."""

from __future__ import annotations


def models(incomplete: str) -> list[str]:
    from app.catalogue.models.presets import names

    return [name for name in names() if name.startswith(incomplete)]


def hardware(incomplete: str) -> list[str]:
    from hardware_profiles.catalogue import names

    return [name for name in names() if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    from frameworks.registry import FRAMEWORKS

    return [name for name in ("any", *(framework.name for framework in FRAMEWORKS)) if name.startswith(incomplete)]

"""Loads YAML into a ``HardwareProfile`` in SI units; every error is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from documents.checking import Section, check
from documents.errors import InputError, show
from documents.reading import Limits, parse_document, read_document
from documents.sentences import Sentence, joined
from hardware_profiles.fields import PRECISIONS, CurveSection, Points, ProfileSection, Stated, TierSection
from hardware_profiles.likeness import LIKE, filled_in
from hardware_profiles.schema import (
    OLDEST_CAPABILITY,
    Basis,
    CollectiveCurve,
    HardwareProfile,
    NetworkTier,
    ProfileError,
    Quantity,
    Status,
    Wiring,
)

LIMITS = Limits(depth=12, values=20_000)


def load_profile(path: str | Path, base_of: Callable[[str], HardwareProfile] | None = None) -> HardwareProfile:
    """The profile in a YAML file, in SI units; ``base_of`` finds the profile that a file is ``like``. Raises ``ProfileError``."""
    try:
        document = read_document(Path(path), LIMITS, is_json=False)
        if base_of is not None and LIKE in document:
            document = _of_base(document, base_of)
    except InputError as error:
        raise ProfileError(Sentence("{}: {}", path, error) if isinstance(error, ProfileError) else str(error)) from None
    return parse_profile(document, str(path))


def _of_base(document: dict[str, Any], base_of: Callable[[str], HardwareProfile]) -> dict[str, Any]:
    name = document[LIKE]
    if not isinstance(name, str):
        raise ProfileError(Sentence("{}: {} is not allowed; give the name of a profile.", LIKE, show(name)))
    if "name" not in document:
        raise ProfileError(Sentence("name: missing; give the profile a name of its own."))
    return filled_in(document, base_of(name))


def parse_profile_text(text: str, origin: str) -> HardwareProfile:
    """The profile in YAML text; ``origin`` names it in errors. Raises ``ProfileError``."""
    try:
        document = parse_document(text, origin, limits=LIMITS)
    except InputError as error:
        raise ProfileError(str(error)) from None
    return parse_profile(document, origin)


def parse_profile(document: object, origin: str) -> HardwareProfile:
    """The profile in a mapping of the YAML form; ``origin`` names it in errors. Raises ``ProfileError``."""
    try:
        profile = _profile(check(ProfileSection, document))
        _check(profile)
    except InputError as error:
        raise ProfileError(Sentence("{}: {}", origin, error)) from None
    return profile


def _profile(section: ProfileSection) -> HardwareProfile:
    return HardwareProfile(
        name=section.name,
        title=section.title,
        family=section.family,
        status=Status(section.status),
        device=section.device,
        matmul_flops_per_s=section.matmul_flops_per_s.si,
        achievable_matmul_flops_per_s=section.achievable_matmul_flops_per_s.si,
        vector_flops_per_s=section.vector_flops_per_s.si,
        num_matmul_cores=int(section.num_matmul_cores.si),
        compute_capability=_si_or_none(section.compute_capability),
        clock_hz=_si_or_none(section.clock_hz),
        host_memory_bytes=_si_or_none(section.host_memory_bytes),
        host_memory_bytes_per_s=_si_or_none(section.host_memory_bytes_per_s),
        hbm_bytes=section.hbm_bytes.si,
        usable_hbm_bytes=section.usable_hbm_bytes.si,
        hbm_bytes_per_s=section.hbm_bytes_per_s.si,
        host_link_bytes_per_s=section.host_link_bytes_per_s.si,
        context_bytes=section.context_bytes.si,
        communicator_bytes=section.communicator_bytes.si,
        tiers=tuple(map(_tier, section.tiers)),
        devices_per_node=int(section.devices_per_node.si),
        sequential_tiers=section.sequential_tiers,
        power_w=_si_or_none(section.power_w),
        price_usd=_si_or_none(section.price_usd),
        notes=tuple(section.notes),
        provenance=dict(_provenance(section, "")),
    )


def _tier(section: TierSection) -> NetworkTier:
    domain = section.domain_devices
    return NetworkTier(
        name=section.name,
        wiring=Wiring(section.wiring),
        domain_devices=None if domain is None else int(domain.si),
        bandwidth_bytes_per_s=section.bandwidth_bytes_per_s.si,
        latency_s=section.latency_s.si,
        link_bytes_per_s=_si_or_none(section.link_bytes_per_s),
        oversubscription=1.0 if section.oversubscription is None else section.oversubscription.si,
        curves=tuple(map(_curve, section.curves)),
    )


def _curve(section: CurveSection) -> CollectiveCurve:
    return CollectiveCurve(
        op=section.op,
        group_size=int(section.group_size.si),
        message_bytes=section.message_bytes.points,
        time_s=section.time_s.points,
        source=section.time_s.source,
    )


def _si_or_none(stated: Stated | None) -> float | None:
    return None if stated is None else stated.si


def _provenance(value: object, path: str) -> Iterator[tuple[str, Quantity]]:
    """Each number as stated in the file, by its dotted path."""
    if isinstance(value, Stated):
        paths = [Sentence("{}.{}", path, index) for index in range(len(value.values))] if isinstance(value, Points) else [path]
        for at, number in zip(paths, value.values, strict=True):
            yield at, Quantity(number, value.unit, value.source, Basis(value.basis), value.note)
    elif isinstance(value, Section | list):
        parts = enumerate(value) if isinstance(value, list) else value
        for name, part in parts:
            yield from _provenance(part, Sentence("{}.{}", path, name) if path else str(name))


def _check(profile: HardwareProfile) -> None:
    """Check the relations between the numbers of one profile."""
    if not profile.matmul_flops_per_s:
        raise InputError(Sentence("matmul_flops_per_s: it is empty; give one of {}.", joined(", ", PRECISIONS)))
    for precision, rate in profile.achievable_matmul_flops_per_s.items():
        path = f"achievable_matmul_flops_per_s.{precision}"
        if precision not in profile.matmul_flops_per_s:
            raise InputError(Sentence("{}: given without a peak in matmul_flops_per_s.", path))
        if rate > profile.matmul_flops_per_s[precision]:
            raise InputError(
                Sentence("{}: {:g} FLOPS is above the peak of {:g}.", path, rate, profile.matmul_flops_per_s[precision])
            )
    if profile.usable_hbm_bytes > profile.hbm_bytes:
        raise InputError(
            Sentence("usable_hbm_bytes: {:.0f} B is above hbm_bytes of {:.0f}.", profile.usable_hbm_bytes, profile.hbm_bytes)
        )
    if profile.context_bytes + profile.communicator_bytes >= profile.usable_hbm_bytes:
        raise InputError(Sentence("context_bytes: it leaves, with communicator_bytes, nothing of usable_hbm_bytes."))
    _check_capability(profile)
    _check_tiers(profile.tiers)


def _check_capability(profile: HardwareProfile) -> None:
    """Refuses a capability of other devices than GPUs, and rates that devices of it do not have."""
    stated = profile.compute_capability
    if stated is None:
        return
    if profile.family not in OLDEST_CAPABILITY:
        raise InputError(Sentence("compute_capability: it is of GPUs, and the family is {}; leave it out.", profile.family))
    for precision, oldest in OLDEST_CAPABILITY[profile.family].items():
        if precision in profile.matmul_flops_per_s and stated < oldest:
            raise InputError(
                Sentence(
                    "matmul_flops_per_s.{}: matrix units have it from compute capability {} on, and compute_capability is {}.",
                    precision,
                    oldest,
                    stated,
                )
            )


def _check_tiers(tiers: tuple[NetworkTier, ...]) -> None:
    inner = 1
    for index, tier in enumerate(tiers):
        path = f"tiers[{index}]"
        last = index == len(tiers) - 1
        if last != (tier.domain_devices is None):
            raise InputError(
                Sentence("{}.domain_devices: leave it out on the last tier, which joins all devices, and only there.", path)
            )
        if tier.name in {other.name for other in tiers[:index]}:
            raise InputError(Sentence("{}.name: another tier is {!r} too; give each a name of its own.", path, tier.name))
        if (tier.wiring is Wiring.MESH) != (tier.link_bytes_per_s is not None):
            raise InputError(
                Sentence("{}.link_bytes_per_s: give it for wiring 'mesh', the rate to one peer, and only there.", path)
            )
        domain = tier.domain_devices
        if domain is not None:
            if domain <= inner or domain % inner:
                raise InputError(
                    Sentence("{}.domain_devices: {} is not allowed; give a multiple of the inner tier's {}.", path, domain, inner)
                )
            inner = domain
            links = tier.link_bytes_per_s
            if links is not None and tier.bandwidth_bytes_per_s > links * (domain - 1) * (1 + 1e-9):
                raise InputError(
                    Sentence("{}.bandwidth_bytes_per_s: it is more than {} links of link_bytes_per_s carry.", path, domain - 1)
                )
        for number, curve in enumerate(tier.curves):
            if domain is not None and curve.group_size > domain:
                raise InputError(
                    Sentence(
                        "{}.curves[{}].group_size: {} is not allowed; the tier joins {} devices, "
                        "and the curve belongs to an outer one.",
                        path,
                        number,
                        curve.group_size,
                        domain,
                    )
                )

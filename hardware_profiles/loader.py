"""YAML to ``HardwareProfile``: every number is ``{value, unit, source, basis}``, and every error one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NoReturn, TypeVar

from hardware_profiles.document import Document, parse_document, read_document
from hardware_profiles.schema import (
    Basis,
    CollectiveCurve,
    HardwareProfile,
    NetworkTier,
    ProfileError,
    Quantity,
    Status,
    Wiring,
)
from hardware_profiles.units import UNITS, Dimension, names, to_si

PRECISIONS = ("bf16", "fp16", "fp8", "nvfp4", "mxfp4", "fp32")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
FAMILIES = ("ascend", "nvidia", "amd")
MAX_TEXT = 1000
MAX_TIERS = 6
MAX_CURVES = 64
MAX_POINTS = 256

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True)
class _Range:
    """What a number measures and the plausible range of it, in SI units."""

    dimension: Dimension
    low: float
    high: float


_RANGES: Mapping[str, _Range] = {
    "matmul_flops_per_s": _Range(Dimension.FLOPS_PER_S, 1e9, 1e19),
    "achievable_matmul_flops_per_s": _Range(Dimension.FLOPS_PER_S, 1e9, 1e19),
    "vector_flops_per_s": _Range(Dimension.FLOPS_PER_S, 1e9, 1e18),
    "num_matmul_cores": _Range(Dimension.COUNT, 1, 65_536),
    "clock_hz": _Range(Dimension.HERTZ, 1e7, 1e11),
    "hbm_bytes": _Range(Dimension.BYTES, 1e9, 1e14),
    "usable_hbm_bytes": _Range(Dimension.BYTES, 1e9, 1e14),
    "hbm_bytes_per_s": _Range(Dimension.BYTES_PER_S, 1e9, 1e15),
    "host_link_bytes_per_s": _Range(Dimension.BYTES_PER_S, 1e8, 1e14),
    "context_bytes": _Range(Dimension.BYTES, 0, 1e13),
    "communicator_bytes": _Range(Dimension.BYTES, 0, 1e12),
    "devices_per_node": _Range(Dimension.COUNT, 1, 4_096),
    "power_w": _Range(Dimension.WATTS, 1, 1e5),
    "price_usd": _Range(Dimension.USD, 1, 1e8),
    "domain_devices": _Range(Dimension.COUNT, 2, 10_000_000),
    "bandwidth_bytes_per_s": _Range(Dimension.BYTES_PER_S, 1e6, 1e15),
    "link_bytes_per_s": _Range(Dimension.BYTES_PER_S, 1e6, 1e15),
    "latency_s": _Range(Dimension.SECONDS, 0, 1),
    "oversubscription": _Range(Dimension.COUNT, 1, 1_000),
    "group_size": _Range(Dimension.COUNT, 2, 1_000_000),
    "message_bytes": _Range(Dimension.BYTES, 1, 1e13),
    "time_s": _Range(Dimension.SECONDS, 1e-9, 1e4),
}

_TEXTS = ("name", "title", "family", "status", "device")
_REQUIRED = (
    *_TEXTS,
    "matmul_flops_per_s",
    "vector_flops_per_s",
    "num_matmul_cores",
    "hbm_bytes",
    "usable_hbm_bytes",
    "hbm_bytes_per_s",
    "host_link_bytes_per_s",
    "context_bytes",
    "communicator_bytes",
    "devices_per_node",
    "sequential_tiers",
    "tiers",
)
_OPTIONAL = ("achievable_matmul_flops_per_s", "clock_hz", "power_w", "price_usd", "notes")
_TIER_REQUIRED = ("name", "wiring", "bandwidth_bytes_per_s", "latency_s")
_TIER_OPTIONAL = ("domain_devices", "link_bytes_per_s", "oversubscription", "curves")
_CURVE_KEYS = ("op", "group_size", "message_bytes", "time_s")


def load_profile(path: str | Path) -> HardwareProfile:
    """The profile in a YAML file, in SI units. Raises ``ProfileError``."""
    path = Path(path)
    return parse_profile(read_document(path), str(path))


def parse_profile_text(text: str, origin: str) -> HardwareProfile:
    """The profile in YAML text; ``origin`` names it in errors. Raises ``ProfileError``."""
    return parse_profile(parse_document(text, origin), origin)


def parse_profile(document: Document, origin: str) -> HardwareProfile:
    """The profile in a mapping of the YAML form; ``origin`` names it in errors. Raises ``ProfileError``."""
    return _Reader(origin).profile(document)


@dataclass(frozen=True)
class _Reader:
    origin: str
    provenance: dict[str, Quantity] = field(default_factory=dict)

    def profile(self, document: Document) -> HardwareProfile:
        data = self.mapping(document, "", _REQUIRED, _OPTIONAL)
        result = HardwareProfile(
            name=self.name(data["name"], "name"),
            title=self.text(data["title"], "title"),
            family=self.one_of(data["family"], "family", FAMILIES),
            status=self.choice(data["status"], "status", Status),
            device=self.text(data["device"], "device"),
            matmul_flops_per_s=self.by_precision(data["matmul_flops_per_s"], "matmul_flops_per_s"),
            achievable_matmul_flops_per_s=self.by_precision(
                data.get("achievable_matmul_flops_per_s", {}), "achievable_matmul_flops_per_s"
            ),
            vector_flops_per_s=self.number(data, "vector_flops_per_s"),
            num_matmul_cores=self.count(data, "num_matmul_cores"),
            clock_hz=self.optional_number(data, "clock_hz"),
            hbm_bytes=self.number(data, "hbm_bytes"),
            usable_hbm_bytes=self.number(data, "usable_hbm_bytes"),
            hbm_bytes_per_s=self.number(data, "hbm_bytes_per_s"),
            host_link_bytes_per_s=self.number(data, "host_link_bytes_per_s"),
            context_bytes=self.number(data, "context_bytes"),
            communicator_bytes=self.number(data, "communicator_bytes"),
            tiers=tuple(self.tier(item, f"tiers.{i}") for i, item in enumerate(self.items(data["tiers"], "tiers", MAX_TIERS))),
            devices_per_node=self.count(data, "devices_per_node"),
            sequential_tiers=self.boolean(data["sequential_tiers"], "sequential_tiers"),
            power_w=self.optional_number(data, "power_w"),
            price_usd=self.optional_number(data, "price_usd"),
            notes=tuple(self.text(item, f"notes.{i}") for i, item in enumerate(self.items(data.get("notes", []), "notes", 32))),
            provenance=self.provenance,
        )
        self.check(result)
        return result

    def tier(self, document: Document, path: str) -> NetworkTier:
        data = self.mapping(document, path, _TIER_REQUIRED, _TIER_OPTIONAL)
        domain = self.number(data, "domain_devices", path) if data.get("domain_devices") is not None else None
        curves = self.items(data.get("curves", []), f"{path}.curves", MAX_CURVES)
        return NetworkTier(
            name=self.name(data["name"], f"{path}.name"),
            wiring=self.choice(data["wiring"], f"{path}.wiring", Wiring),
            domain_devices=None if domain is None else self.whole(domain, f"{path}.domain_devices"),
            bandwidth_bytes_per_s=self.number(data, "bandwidth_bytes_per_s", path),
            latency_s=self.number(data, "latency_s", path),
            link_bytes_per_s=self.optional_number(data, "link_bytes_per_s", path),
            oversubscription=self.number(data, "oversubscription", path) if "oversubscription" in data else 1.0,
            curves=tuple(self.curve(item, f"{path}.curves.{i}") for i, item in enumerate(curves)),
        )

    def curve(self, document: Document, path: str) -> CollectiveCurve:
        data = self.mapping(document, path, _CURVE_KEYS, ())
        message_bytes = self.points(data, "message_bytes", path)
        time_s = self.points(data, "time_s", path)
        if len(message_bytes) != len(time_s):
            self.fail(f"{path}.time_s", f"has {len(time_s)} points, message_bytes has {len(message_bytes)}; give one time a size")
        if any(later <= earlier for earlier, later in pairwise(message_bytes)):
            self.fail(f"{path}.message_bytes", "must increase from point to point")
        return CollectiveCurve(
            op=self.one_of(data["op"], f"{path}.op", COLLECTIVES),
            group_size=self.count(data, "group_size", path),
            message_bytes=message_bytes,
            time_s=time_s,
            source=self.provenance[f"{path}.time_s.0"].source,
        )

    def by_precision(self, document: Document, path: str) -> dict[str, float]:
        data = self.mapping(document, path, (), PRECISIONS)
        return {name: self.quantity(data[name], f"{path}.{name}", _RANGES[path]) for name in data}

    def number(self, data: Mapping[str, Document], key: str, parent: str = "") -> float:
        return self.quantity(data[key], f"{parent}.{key}" if parent else key, _RANGES[key])

    def optional_number(self, data: Mapping[str, Document], key: str, parent: str = "") -> float | None:
        return self.number(data, key, parent) if data.get(key) is not None else None

    def count(self, data: Mapping[str, Document], key: str, parent: str = "") -> int:
        return self.whole(self.number(data, key, parent), f"{parent}.{key}" if parent else key)

    def whole(self, value: float, path: str) -> int:
        if not value.is_integer():
            self.fail(f"{path}.value", f"is {value!r}, it must be a whole number")
        return int(value)

    def quantity(self, document: Document, path: str, allowed: _Range) -> float:
        value, stated = self.block(document, path, allowed)
        return self.record(value, stated, path, f"{path}.value", allowed)

    def points(self, data: Mapping[str, Document], key: str, parent: str) -> tuple[float, ...]:
        path = f"{parent}.{key}"
        value, stated = self.block(data[key], path, _RANGES[key])
        values = self.items(value, f"{path}.value", MAX_POINTS)
        if len(values) < 2:
            self.fail(f"{path}.value", f"has {len(values)} points, a curve needs two or more")
        return tuple(self.record(item, stated, f"{path}.{i}", f"{path}.value.{i}", _RANGES[key]) for i, item in enumerate(values))

    def block(self, document: Document, path: str, allowed: _Range) -> tuple[Document, Quantity]:
        """What stands under ``value``, still to be read, and the rest of the block."""
        data = self.mapping(document, path, ("value", "unit", "source", "basis"), ("note",))
        unit = self.text(data["unit"], f"{path}.unit")
        if unit not in UNITS or UNITS[unit].dimension is not allowed.dimension:
            self.fail(f"{path}.unit", f"is {_not_allowed(unit, names(allowed.dimension))}")
        stated = Quantity(
            value=math.nan,
            unit=unit,
            source=self.text(data["source"], f"{path}.source"),
            basis=self.choice(data["basis"], f"{path}.basis", Basis),
            note=self.text(data["note"], f"{path}.note") if data.get("note") is not None else "",
        )
        return data["value"], stated

    def record(self, value: Document, stated: Quantity, path: str, at: str, allowed: _Range) -> float:
        """``value`` in SI units, kept as stated under ``path``; an error points ``at`` it."""
        number = self.finite(value, at)
        si = to_si(number, stated.unit)
        if not allowed.low <= si <= allowed.high:
            limits = f"{allowed.low:g} to {allowed.high:g} {allowed.dimension}"
            self.fail(at, f"is {number:g} {stated.unit}, allowed: {limits}")
        self.provenance[path] = replace(stated, value=number)
        return si

    def finite(self, value: Document, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(path, f"is {_shown(value)}, it must be a number{_number_hint(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(path, f"is {_shown(value)}, it must be a finite number")
        return number

    def mapping(self, document: Document, path: str, required: Iterable[str], optional: Iterable[str]) -> dict[str, Document]:
        required = tuple(required)
        known = (*required, *optional)
        if not isinstance(document, dict):
            self.fail(path, f"is {_shown(document)}, it must be a mapping with the keys {', '.join(known)}")
        for key in document:
            if key not in known:
                self.fail(path, f"has the unknown key {_not_allowed(key, known)}")
        for key in required:
            if document.get(key) is None:
                self.fail(path, f"lacks the key {key!r}; it must have {', '.join(required)}")
        return document

    def items(self, document: Document, path: str, limit: int) -> list[Document]:
        if not isinstance(document, list):
            self.fail(path, f"is {_shown(document)}, it must be a list")
        if len(document) > limit:
            self.fail(path, f"has {len(document)} entries, allowed are up to {limit}")
        return document

    def text(self, value: Document, path: str) -> str:
        if not isinstance(value, str):
            self.fail(path, f"is {_shown(value)}, it must be text; quote it if it looks like a number")
        # nothing that would move a terminal's cursor, and no lone surrogate that no encoding prints
        if not value.strip() or len(value) > MAX_TEXT or not value.replace("\n", " ").isprintable():
            self.fail(path, f"is {_shown(value)}, it must be text of 1 to {MAX_TEXT} printable characters")
        return value

    def name(self, value: Document, path: str) -> str:
        text = self.text(value, path)
        if not _NAME.fullmatch(text):
            self.fail(path, f"is {_shown(text)}, allowed are lower-case letters, digits, dots and dashes, up to 64 of them")
        return text

    def one_of(self, value: Document, path: str, allowed: Iterable[str]) -> str:
        text = self.text(value, path)
        allowed = tuple(allowed)
        if text not in allowed:
            self.fail(path, f"is {_not_allowed(text, allowed)}")
        return text

    def choice(self, value: Document, path: str, kind: type[_Choice]) -> _Choice:
        return kind(self.one_of(value, path, [str(member) for member in kind]))

    def boolean(self, value: Document, path: str) -> bool:
        if not isinstance(value, bool):
            self.fail(path, f"is {_shown(value)}, it must be true or false")
        return value

    def check(self, profile: HardwareProfile) -> None:
        """What must hold between the numbers of one profile."""
        if not profile.matmul_flops_per_s:
            self.fail("matmul_flops_per_s", f"is empty, it needs one of {', '.join(PRECISIONS)}")
        for precision, rate in profile.achievable_matmul_flops_per_s.items():
            path = f"achievable_matmul_flops_per_s.{precision}"
            if precision not in profile.matmul_flops_per_s:
                self.fail(path, "is given without a peak in matmul_flops_per_s")
            if rate > profile.matmul_flops_per_s[precision]:
                self.fail(path, f"is {rate:g} FLOPS, above the peak of {profile.matmul_flops_per_s[precision]:g}")
        if profile.usable_hbm_bytes > profile.hbm_bytes:
            self.fail("usable_hbm_bytes", f"is {profile.usable_hbm_bytes:.0f} B, above hbm_bytes of {profile.hbm_bytes:.0f}")
        if profile.context_bytes + profile.communicator_bytes >= profile.usable_hbm_bytes:
            self.fail("context_bytes", "and communicator_bytes together leave nothing of usable_hbm_bytes")
        self.check_tiers(profile.tiers)

    def check_tiers(self, tiers: tuple[NetworkTier, ...]) -> None:
        if not tiers:
            self.fail("tiers", "is empty, it needs one tier or more, from the inside out")
        inner = 1
        for index, tier in enumerate(tiers):
            path = f"tiers.{index}"
            last = index == len(tiers) - 1
            if last != (tier.domain_devices is None):
                self.fail(f"{path}.domain_devices", "is left out on the last tier, which joins all devices, and only there")
            if tier.name in {other.name for other in tiers[:index]}:
                self.fail(f"{path}.name", f"is {tier.name!r}, which another tier has too")
            if (tier.wiring is Wiring.MESH) != (tier.link_bytes_per_s is not None):
                self.fail(f"{path}.link_bytes_per_s", "is given for wiring 'mesh', the rate to one peer, and only there")
            domain = tier.domain_devices
            if domain is not None:
                if domain <= inner or domain % inner:
                    self.fail(f"{path}.domain_devices", f"is {domain}, it must be a multiple of the inner tier's {inner}")
                inner = domain
                links = tier.link_bytes_per_s
                if links is not None and tier.bandwidth_bytes_per_s > links * (domain - 1) * (1 + 1e-9):
                    self.fail(f"{path}.bandwidth_bytes_per_s", f"is more than {domain - 1} links of link_bytes_per_s carry")
            for number, curve in enumerate(tier.curves):
                if domain is not None and curve.group_size > domain:
                    self.fail(
                        f"{path}.curves.{number}.group_size",
                        f"is {curve.group_size}, the tier joins {domain} devices; the curve belongs to an outer tier",
                    )

    def fail(self, path: str, problem: str) -> NoReturn:
        raise ProfileError(f"{self.origin}: {path or 'the document'} {problem}")


def _shown(value: Document) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**20:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _number_hint(value: Document) -> str:
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
        return " (YAML wants a dot and a signed exponent: 1.0e+12)"
    return ""


def _not_allowed(value: str, allowed: Iterable[str]) -> str:
    allowed = tuple(allowed)
    by_case = {name.lower(): name for name in allowed}
    near = [by_case[value.lower()]] if value.lower() in by_case else get_close_matches(value[:100], allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{_shown(value)}{hint}, allowed: {', '.join(allowed)}"

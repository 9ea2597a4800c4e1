"""Numbers as people write them in flags and job files: 4k, 2T, 400Gbps, 45min, 65,536, 1e3. Only this module knows how."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.jobs.assumed import text_of
from documents.checking import Section, with_texts_read
from documents.errors import InputError, show
from documents.sentences import Sentence
from hardware_profiles.units import Dimension, names, to_si

_NUMBER = re.compile(
    r"(\d{1,3}(?:,\d{3})+(?:\.\d*)?|[\d_]*\.?\d+|\d[\d_]*\.?)((?:[eE][+-]?\d{1,3})?) ?([A-Za-z/]{0,9})", re.ASCII
)
_MAX_CHARACTERS = 40

_SIZES = {"Ki": 2.0**10, "Mi": 2.0**20}
_BITS = {
    f"{prefix}{name}": factor / 8
    for prefix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
    for name in ("bps", "b/s", "bit/s")
}
_BYTES = {f"{name}{ending}": to_si(1.0, name) for name in names(Dimension.BYTES)[1:] for ending in ("/s", "ps")}
# Kind of a field -> unit -> size. Letters count in any case, unless two units differ by case alone (Gb/s and GB/s).
_UNITS: Mapping[str, Mapping[str, float]] = {
    # Batches and devices come in powers of two as well as of ten, so that 4k would be a guess.
    "size": _SIZES,
    # A sequence of 4k tokens has 4,096 everywhere in the field.
    "length": {**_SIZES, "k": 2.0**10, "M": 2.0**20},
    "count": {**_SIZES, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12},
    "bytes": {name: to_si(1.0, name) for name in names(Dimension.BYTES)},
    "bytes_per_s": {"B/s": 1.0, **_BYTES, **_BITS},
    "seconds": {
        **{name: to_si(1.0, name) for name in names(Dimension.SECONDS)},
        "sec": 1.0,
        "min": 60.0,
        "h": 3600.0,
        "d": 86_400.0,
        "days": 86_400.0,
    },
    "number": {},
}
_SHOWN: Mapping[str, Sequence[str]] = {"seconds": ("d", "h", "min", "s"), "bytes_per_s": ("TB/s", "GB/s", "MB/s")}
_EXAMPLES: Mapping[str, Sentence] = {
    "size": Sentence("a whole number, as in 1024, 1,024 or 1Ki"),
    "length": Sentence("a whole number, as in 4096, 4,096 or 4k (of 1,024)"),
    "count": Sentence("a number, as in 2000000, 2e6, 2M or 2T"),
    "bytes": Sentence("bytes, or a size such as 65536MiB or 64GiB"),
    "bytes_per_s": Sentence("bytes a second, or a rate such as 50GB/s or 400Gbps"),
    "seconds": Sentence("seconds, or a time such as 90s, 45min, 3.1h or 2d"),
    "number": Sentence("a number, as in 8, 0.9 or 1e3"),
}
_TIME_WITH_UNIT = Sentence("a time with its unit, such as 90s, 45min, 3.1h or 2d")
_KINDS = {
    "seq_length": "length",
    **dict.fromkeys(("prompt", "response", "prompt_tokens", "response_tokens"), "length"),
    "train_tokens": "count",
    "devices": "size",
    "num_devices": "size",
    "devices_at_most": "size",
    "global_batch_size": "size",
    "budget_usd": "count",
    "max_trials": "count",
    "time_limit_s": "seconds",
}
_ENDINGS = (("_bytes_per_s", "bytes_per_s"), ("_bytes", "bytes"), ("_s", "seconds"), ("_tokens", "count"))


def kind_of(field: str) -> str:
    """The kind of units that a field or a flag's parameter takes."""
    return _KINDS.get(field) or next((kind for ending, kind in _ENDINGS if field.endswith(ending)), "number")


def number(text: str, field: str, *, whole: bool = False, needs_unit: bool = False) -> int | float | None:
    """The number in SI units that ``text`` says of a field; None where it says none, or no whole one where one is needed."""
    text = text.strip()
    found = _NUMBER.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if found is None or (needs_unit and not found[3]):
        return None
    factor = 1.0 if not found[3] else _factor(found[3], _UNITS[kind_of(field)])
    if factor is None:
        return None
    digits = found[1].replace(",", "").replace("_", "")
    if whole and digits.isdigit() and not found[2]:
        return int(digits) * int(factor) if factor.is_integer() else None
    value = float(digits + found[2]) * factor
    if not math.isfinite(value) or (whole and not value.is_integer()):
        return None
    return int(value) if whole else value


def _factor(unit: str, units: Mapping[str, float]) -> float | None:
    if unit in units:
        return units[unit]
    alike = {size for name, size in units.items() if name.lower() == unit.lower()}
    return alike.pop() if len(alike) == 1 else None


def quantity(field: str, value: Any) -> str:
    """A value of a field as ``number`` reads it, in the largest unit that is exact: ``3d``, ``100GB/s``."""
    kind = kind_of(field)
    for unit in _SHOWN.get(kind, ()) if isinstance(value, float) else ():
        size = _UNITS[kind][unit]
        text = f"{value / size:g}"
        if value >= size and float(text) * size == value:
            return text + unit
    return text_of(value)


def given_number(text: str, field: str, label: str, *, whole: bool = False, needs_unit: bool = False) -> int | float:
    """Like ``number``, for a flag; ``InputError`` where the text says none."""
    found = number(text, field, whole=whole, needs_unit=needs_unit)
    if found is None:
        form = _TIME_WITH_UNIT if needs_unit else form_of(field, whole=whole)
        raise InputError(Sentence("{}: {} is not allowed; give {}.", label, show(text), form))
    return found


def form_of(field: str, *, whole: bool = False) -> Sentence:
    """How to write a number of this field."""
    kind = kind_of(field)
    return Sentence("a whole number, as in 8 or 1e3") if whole and kind in ("number", "count") else _EXAMPLES[kind]


def with_numbers(model: type[Section], document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with numbers in place of the texts that say one, wherever the field takes no text."""
    found: dict[str, Any] = with_texts_read(model, document, lambda field, text, whole: number(text, field, whole=whole))
    return found

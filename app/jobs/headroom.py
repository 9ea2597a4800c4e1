"""Device memory that must stay free: bytes, a quantity such as 4GiB, or a share of the device's limit such as 5%."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from documents.errors import InputError, did_you_mean, show
from documents.sentences import Sentence, joined
from hardware_profiles.units import Dimension, names, to_si

FIELD = "search.min_headroom"
MAX_HEADROOM_TEXT = 32
MAX_HEADROOM_BYTES = 2**50
_QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?(%|[A-Za-z]{0,4})", re.ASCII)
_UNITS = names(Dimension.BYTES)

Bytes = Field(ge=0, le=MAX_HEADROOM_BYTES)
HeadroomBytes = Annotated[int, Bytes] | Annotated[float, Bytes]  # bounds that the API's description states


def checked_headroom(given: int | float | str) -> int | float | str:
    """Check ``given``; ``ValueError`` with a sentence for a text that is no headroom."""
    if isinstance(given, str):
        _parts(given)
    return given


def headroom_bytes(given: int | float | str, limit_bytes: float, labels: Mapping[str, str]) -> float:
    """The headroom on a device with this limit; ``InputError`` if nothing is left."""
    if isinstance(given, str):
        number, unit = _parts(given)
        found = number / 100.0 * limit_bytes if unit == "%" else to_si(number, unit or "B")
    else:
        found = float(given)
    if found >= limit_bytes:
        raise InputError(
            Sentence(
                "{}: {} is not allowed; the device has {:.1f} GiB that can be filled, give less.",
                labels.get(FIELD, FIELD),
                show(given),
                limit_bytes / 2**30,
            )
        )
    return found


def _parts(text: str) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text.strip())
    wanted = Sentence(
        "give bytes, a quantity in {} such as 4GiB, or a part of the device's limit such as 5%.", joined(", ", _UNITS)
    )
    if found is None:
        raise ValueError(Sentence("{} is not allowed; {}", show(text), wanted))
    number, unit = float(found[1]), found[2]
    if unit not in ("", "%", *_UNITS):
        raise ValueError(Sentence("{} is not allowed{}; {}", show(text), did_you_mean(unit, _UNITS), wanted))
    return number, unit

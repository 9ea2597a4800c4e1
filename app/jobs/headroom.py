"""Device memory that must stay free: bytes, a quantity such as 4GiB, or a share of the device's limit such as 5%."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from app.jobs.written_numbers import number
from documents.errors import InputError, show
from documents.sentences import Sentence, joined
from hardware_profiles.units import Dimension, names

FIELD = "search.min_headroom"
MAX_HEADROOM_TEXT = 32
MAX_HEADROOM_BYTES = 2**50

Bytes = Field(ge=0, le=MAX_HEADROOM_BYTES)
HeadroomBytes = Annotated[int, Bytes] | Annotated[float, Bytes]  # bounds that the API's description states


def checked_headroom(given: int | float | str) -> int | float | str:
    """Check ``given``; ``ValueError`` with a sentence for a text that is no headroom."""
    if isinstance(given, str):
        _bytes_or_share(given)
    return given


def headroom_bytes(given: int | float | str, limit_bytes: float, labels: Mapping[str, str]) -> float:
    """The headroom on a device with this limit; ``InputError`` if nothing is left."""
    if isinstance(given, str):
        size, share = _bytes_or_share(given)
        found = size if size is not None else (share or 0.0) * limit_bytes
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


def _bytes_or_share(text: str) -> tuple[float | None, float | None]:
    """Bytes, or the share of the limit; ``ValueError`` with a sentence for a text that is neither."""
    plain = text.strip()
    is_share = plain.endswith("%")
    found = number(plain[:-1], "percent") if is_share else number(plain, "min_headroom_bytes")
    if found is None:
        raise ValueError(
            Sentence(
                "{} is not allowed; give bytes, a quantity in {} such as 4GiB, or a part of the device's limit such as 5%.",
                show(text),
                joined(", ", names(Dimension.BYTES)),
            )
        )
    return (None, found / 100) if is_share else (found, None)

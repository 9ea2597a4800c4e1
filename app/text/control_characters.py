"""Control characters in texts of users, which a terminal would act on."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text with control characters as their escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)

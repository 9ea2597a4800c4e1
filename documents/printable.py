"""Text without the characters that make a terminal act: escape sequences can write the clipboard, titles and other lines."""

from __future__ import annotations

import re

# C0 without tab and line feed, a carriage return that ends no line, DEL, C1, and the marks that turn the direction of text.
ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def printable(text: str) -> str:
    r"""The text with such characters written as Python writes them, ``\x1b``."""
    return ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

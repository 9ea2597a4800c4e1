"""Text of users inside Markdown: no link, image, mention or reference of theirs becomes one of the page."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&])")
# GitHub and GitLab also make links of bare addresses, and of names and numbers after these characters, escaped or not.
_LINKED = re.compile(r"(://|\bwww\.|[@#!$%~](?=\w)|\bmailto:)", re.IGNORECASE)
_BREAK = "\u200b"  # a space without width, at which a name or an address ends


def neutral(text: str) -> str:
    """The text on one line, as it is read, whatever Markdown it holds."""
    return _SPECIAL.sub(r"\\\1", broken_links(text))


def broken_links(text: str) -> str:
    """The text on one line, without what would become a link or a mention even inside HTML; the caller escapes it."""
    return _LINKED.sub(lambda found: f"{found[0][:1]}{_BREAK}{found[0][1:]}", " ".join(text.split()))


def fence(text: str) -> str:
    """The mark before and after a block of code that the text cannot end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)

"""What a reader of Chinese may not find: English words of ours, outside names, identifiers and what a user gave."""

from __future__ import annotations

import re

CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Words that hold English sentences together. No name, unit or identifier of ours is one of them.
STOP_WORDS = re.compile(
    r"(?<![\w./=:+-])(?:the|of|is|are|was|and|or|with|without|no|not|for|to|from|by|than|that|which|its?|as|at|be|has|have"
    r"|does|would|takes|needs|gives?|more|less|most|least|other|every|each)(?![\w./=-]*[\w/=])",
    re.IGNORECASE,
)
# Quotations, commands, citations and options, which stay as they are.
KEPT = re.compile(
    r"'[^'\n]*'|`[^`\n]*`|\[[^\]\n]*\]|--[\w-]+|https?://\S+|\"[^\"\n]*\"|arXiv [^）\n]*|\b(?:on|off) -> (?:on|off)\b"
)


def english_in(text: str, *given: str) -> list[str]:
    """The stop words of a text in Chinese with the words around them; ``given``: what a user wrote."""
    for part in given:
        text = text.replace(part, "…")
    bare = KEPT.sub("…", text)
    return [bare[max(found.start() - 25, 0) : found.end() + 25].replace("\n", " ") for found in STOP_WORDS.finditer(bare)]

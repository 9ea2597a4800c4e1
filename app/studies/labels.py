"""Labels of a study: a name, tags, a note; empty by default."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from documents.sentences import Sentence

MAX_NAME, MAX_TAG, MAX_TAGS, MAX_NOTE = 120, 40, 16, 2000  # characters of a label, and tags of a study
MAX_TEXT, MAX_WORDS = 200, 5  # characters and words of a search
_LINES = "\t\r\n"


def one_line(text: str) -> str:
    return _printable(text, "")


def _note(text: str) -> str:
    return _printable(text, _LINES)


def _few_words(text: str) -> str:
    if len(text.split()) > MAX_WORDS:
        raise ValueError(Sentence("at most {} words are looked for.", MAX_WORDS))
    return text


def _tag(text: str) -> str:
    text = one_line(text)
    if not text or "," in text:
        raise ValueError(Sentence("a tag is a few words without a comma."))
    return text


def _printable(text: str, allowed: str) -> str:
    """The text without spaces around it."""
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") and letter not in allowed for letter in text):
        kind = Sentence("one line without control characters") if not allowed else Sentence("text without control characters")
        raise ValueError(Sentence("it is to be {}.", kind))
    return text.strip()


def _distinct(tags: list[str]) -> list[str]:
    return sorted(set(tags))


NameText = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(one_line)]
NoteText = Annotated[str, Field(max_length=MAX_NOTE), AfterValidator(_note)]
Tag = Annotated[str, Field(max_length=MAX_TAG), AfterValidator(_tag)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS), AfterValidator(_distinct)]
SearchText = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(one_line), AfterValidator(_few_words)]

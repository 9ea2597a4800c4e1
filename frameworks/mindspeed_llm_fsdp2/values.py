"""Values as the parser of the FSDP2 backend reads them: it turns each into a text, and the text into the argument's type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.release import Argument, Kind

_TRUE, _FALSE = ("yes", "true", "t", "y", "1"), ("no", "false", "f", "n", "0")  # [mindspeed-llm, fsdp2/utils/arguments.py:772]
MAX_TEXT = 80


def typed(argument: Argument | None, name: str, value: Any) -> Any:
    """A value as the backend's parser reads its text; raises ``ReadingError``."""
    if argument is None or isinstance(value, Mapping):
        return value
    if argument.many:
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]
    text = str(value)
    try:
        if isinstance(value, list):
            raise ValueError(name)
        if argument.kind is Kind.SWITCH:
            return (*_FALSE, *_TRUE).index(text.lower()) >= len(_FALSE)
        return {Kind.INTEGER: int, Kind.NUMBER: float, Kind.TEXT: str}[argument.kind](text)
    except ValueError:
        raise ReadingError(Sentence("{} {!r} is not allowed", name, text[:MAX_TEXT])) from None

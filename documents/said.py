"""Fields of documents that hold sentences: they keep template and values, and their JSON schema is the schema of any text."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from documents.sentences import Sentence, all_packed, packed, plain

# Whether JSON carries the parts of sentences behind their English text, for the edge that translates them.
WITH_PARTS: ContextVar[bool] = ContextVar("with_parts", default=False)
_MARK = b"\\u001e"  # JSON's form of the mark before the parts
_PARTS = re.compile(rb'\\u001e(?:[^"\\]|\\.)*')


def _written(text: str) -> str:
    if not WITH_PARTS.get():
        return plain(text)
    return packed(Sentence.whole(text)) if " " in text else text  # a single word is a name


def written(document: Any) -> Any:
    """Mappings and lists that are not models, as they go into JSON."""
    return all_packed(document) if WITH_PARTS.get() else document


def without_parts(content: bytes) -> bytes:
    """JSON with the English texts of its sentences alone."""
    return _PARTS.sub(b"", content) if _MARK in content else content


class _Kept:
    """Validation would make plain text of a sentence; a text without parts is one that the catalogues hold whole."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler(source)
        return core_schema.json_or_python_schema(
            text,
            core_schema.union_schema([core_schema.is_instance_schema(Sentence), text], mode="left_to_right"),
            serialization=core_schema.plain_serializer_function_ser_schema(
                _written, return_schema=core_schema.str_schema(), when_used="json-unless-none"
            ),
        )


Said = Annotated[str, _Kept()]

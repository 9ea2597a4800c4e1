"""Documents as JSON: the base class of their schemas, and the one form that is printed, sent and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from documents.built_when_used import BuiltWhenUsed
from documents.late_methods import dataclass
from documents.printable import ACTING
from documents.said import WITH_PARTS, written


class Document(BuiltWhenUsed):
    """An answer or a part of one, validated on creation. Its JSON leaves out fields that were not given."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


@dataclass(frozen=True)
class DescribedBy:
    """Annotates JSON that other code validates, such as a body by its service; schemas show ``kind``."""

    kind: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_it_is = core_schema.plain_serializer_function_ser_schema(written)
        kind = handler.generate_schema(self.kind)
        return core_schema.no_info_wrap_validator_function(lambda value, _: value, kind, serialization=as_it_is)


def plain(document: Document) -> dict[str, Any]:
    """The document as mappings and lists."""
    return document.model_dump(exclude_unset=True)


def json_bytes(document: Document) -> bytes:
    """The document in the form that is sent."""
    return document.model_dump_json(exclude_unset=True).encode()


def json_with_parts(document: Document) -> bytes:
    """The document in the form that is stored. Sentences have their parts, so that they can be translated."""
    token = WITH_PARTS.set(True)
    try:
        return json_bytes(document)
    finally:
        WITH_PARTS.reset(token)


def json_text(document: Document | Mapping[str, Any]) -> str:
    """The document in the form that is printed and saved; NaN and infinities are refused."""
    mapping = plain(document) if isinstance(document, Document) else document
    text = json.dumps(mapping, indent=2, ensure_ascii=False, allow_nan=False)
    return ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"

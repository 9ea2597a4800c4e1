"""Strong entity tags: a client with the newest version gets 304, and a change requires the version that was read."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Header, Response

from app.http.problems import ServiceError
from documents.said import without_parts
from documents.sentences import Sentence

IfMatch = Annotated[str | None, Header(max_length=1000)]
IfNoneMatch = IfMatch
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": Sentence("Not modified")}}


def version_tag(version: int) -> str:
    return f'"{version}"'


def _tags(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]


def answer(content: bytes, if_none_match: str | None, tag: str | None = None) -> Response:
    """A response with the JSON ``content`` and its tag, or 304 if the client has it already."""
    tag = tag or f'"{hashlib.sha256(without_parts(content)).hexdigest()[:16]}"'
    if if_none_match is not None and any(known in ("*", tag, f"W/{tag}") for known in _tags(if_none_match)):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, 200, {"ETag": tag}, "application/json")


def required_version(if_match: str | None) -> int | None:
    """The version in the If-Match header; None without one. ``ServiceError`` for a tag that cannot match."""
    if if_match is None or if_match.strip() == "*":
        return None
    versions = [tag[1:-1] for tag in _tags(if_match) if len(tag) > 2 and tag[0] == tag[-1] == '"']
    if len(versions) != 1 or not (versions[0].isascii() and versions[0].isdigit() and len(versions[0]) < 18):
        raise ServiceError("stale", Sentence("If-Match is not the tag of this resource."), parameter="If-Match")
    return int(versions[0])

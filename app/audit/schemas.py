"""The audit log as documents."""

from __future__ import annotations

from pydantic import Field

from app.text.json_documents import Document


class AuditEntry(Document):
    """Something that a key did or was refused."""

    number: int
    at_s: float
    owner: str | None
    key_name: str | None
    action: str = Field(description="method and path, or the words of a command")
    status: int | None = Field(description="of the answer; null of a command")
    address: str | None = Field(description="where it came from; of IPv6 the network")
    request_id: str | None

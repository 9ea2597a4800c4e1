"""The error of a search that cannot run as asked."""

from __future__ import annotations

from documents.errors import InputError


class SearchError(InputError):
    """A search that cannot run as asked. The message names the field, the value and what is allowed."""

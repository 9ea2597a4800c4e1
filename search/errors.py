"""Error of a search request that cannot run."""

from __future__ import annotations

from documents.errors import InputError


class SearchError(InputError):
    """A search request cannot run. The message names the field, the value and what is allowed."""

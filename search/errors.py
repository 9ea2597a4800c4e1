"""What a search refuses, as one sentence for the user."""

from __future__ import annotations

from documents.errors import InputError


class SearchError(InputError):
    """A search that cannot run as asked; the message names the field, the value and what is allowed."""

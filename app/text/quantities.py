"""SI numbers as people read them."""

from __future__ import annotations

from documents.quantities import GIB as GIB
from documents.quantities import column_seconds as column_seconds
from documents.quantities import count as count
from documents.quantities import days as days
from documents.quantities import gibibytes as gibibytes
from documents.quantities import percent as percent
from documents.quantities import seconds as seconds

"""Sweeps in requests: few points, a time limit, and no file of the server is read for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.calibrations.stored import stored_calibrations
from app.jobs.requests import check_request
from app.storage.session import Database
from app.sweeps.points import Source, points_of
from app.sweeps.schemas import SweepDocument
from app.sweeps.service import sweep_document
from documents.errors import InputError
from documents.sentences import Sentence

MAX_SERVED_POINTS = 64
MAX_SERVED_S = 60.0  # the caller waits for the answer; the remaining points can be requested again


def sweep_request(document: Mapping[str, Any], database: Database) -> SweepDocument:
    """The answer to a request body; ``InputError`` if it has none."""
    source = Source(document)
    number = len(points_of(source))
    if number > MAX_SERVED_POINTS:
        raise InputError(
            Sentence(
                "sweep: {} points are more than the {} that the server takes at once; ask in parts.", number, MAX_SERVED_POINTS
            )
        )
    return sweep_document(
        source,
        lambda job: stored_calibrations(database, job),
        time_limit_s=MAX_SERVED_S,
        check=check_request,
    )

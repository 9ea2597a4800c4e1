"""The stored calibration that a job or a request names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from app.calibrations.constants import check_applies
from app.jobs.job import Job
from calibration.files.calibrations import Calibration, parse_calibration
from documents.errors import InputError, show
from documents.sentences import Sentence

if TYPE_CHECKING:  # importing SQLAlchemy takes a quarter of a second, which commands without a database avoid
    from sqlalchemy.orm import Session

    from app.storage.session import Database


FIELD = "software.calibration"


def stored_constants(session: Session, name: str, field: str) -> Calibration:
    """The stored calibration of that id; ``InputError`` if there is none, or this version cannot read it."""
    from app.calibrations import repository

    found = repository.find(session, name)
    if found is None:
        raise InputError(
            Sentence("{}: {} is no stored calibration; GET /v1/calibrations lists those that are.", field, show(name))
        )
    try:
        return parse_calibration(json.dumps(found.constants), name)
    except InputError as error:
        raise InputError(
            Sentence(
                "{}: {} (it is of version {}); POST /v1/calibrations fits it anew.", field, str(error).rstrip("."), found.version
            )
        ) from None


def calibrations_of(session: Session, job: Job) -> tuple[Calibration, ...]:
    """The stored calibration that the job names; ``InputError`` if it does not exist or is for other hardware or software."""
    name = job.calibration
    if name is None:
        return ()
    calibration = stored_constants(session, name, FIELD)
    check_applies(calibration, job, name, FIELD)
    return (calibration,)


def stored_calibrations(database: Database, job: Job) -> tuple[Calibration, ...]:
    """``calibrations_of`` in a transaction of its own, opened only if the job names a calibration."""
    if job.calibration is None:
        return ()
    with database.read() as session:
        return calibrations_of(session, job)

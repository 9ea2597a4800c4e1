"""Runs a search on a server, and answers as if it had run here."""

from __future__ import annotations

import os
from typing import NoReturn

from pydantic import ValidationError

from app.answers.schemas import SearchDocument
from app.answers.stored import search_document_of
from app.calibrations.constants import FIELD
from app.jobs.assumed import joined
from app.jobs.job import Job
from documents.errors import InputError
from hardware_profiles import catalogue
from meshplan import __version__
from meshplan.client import Client, MeshplanError, Study
from search.result import Progress
from search.stepwise import ProgressCallback


def remote_search_document(job: Job, url: str, on_progress: ProgressCallback) -> SearchDocument:
    """The document that ``meshplan schema search`` describes, from the server at ``url``; an interrupt cancels the study."""
    hardware = job.document["cluster"]["hardware"]
    if hardware not in catalogue.names():
        raise InputError(f"cluster.hardware: {hardware!r} is a file of this machine; a server knows its own profiles by name.")
    if job.calibration is not None and "/" in job.calibration:
        raise InputError(
            f"{FIELD}: {job.calibration!r} is a file of this machine; with --server, give the id of a "
            "calibration that it stores (GET /v1/calibrations)."
        )
    try:
        with Client(url, api_key=os.environ.get("MESHPLAN_API_KEY")) as client:
            study = _followed(client, client.submit(job.document), on_progress)
            if study.result is None:
                raise RuntimeError(f"study {study.id} is {study.state}: {study.error or 'it left no result'}")
            rejections, plans = client.rejections(study.id), [plan.document for plan in client.plans(study.id)]
    except MeshplanError as error:
        _refuse(error, url)
    try:
        return search_document_of(
            study.document,
            rejections,
            plans,
            assumptions=joined(study.document["assumptions"], job.assumptions),
            warnings=list(job.warnings),
        )
    except ValidationError:
        raise InputError(
            f"--server: {url} answers as version {study.document['version']} does, which this one ({__version__}) does not read; "
            "take the same version on both sides."
        ) from None


def remote_report(url: str, study_id: str, form: str, language: str) -> str:
    """The report of a study that the server at ``url`` has."""
    try:
        with Client(url, api_key=os.environ.get("MESHPLAN_API_KEY")) as client:
            return client.report(study_id, form=form, language=language)
    except MeshplanError as error:
        _refuse(error, url)


def _followed(client: Client, study: Study, on_progress: ProgressCallback) -> Study:
    try:
        for event in client.events(study.id):
            if event.kind == "progress":
                on_progress(Progress(**{name: event.data[name] for name in Progress.__dataclass_fields__ if name in event.data}))
    except KeyboardInterrupt:
        client.cancel(study.id)
    return client.wait(study.id)


def _refuse(error: MeshplanError, url: str) -> NoReturn:
    if error.status >= 500:
        raise RuntimeError(f"the server at {url} failed: {error.detail}") from error
    if error.status == 0:
        hint = error.hint or "Give the URL that it printed."
        raise InputError(f"--server: {error.detail.rstrip('.')}; {hint[:1].lower()}{hint[1:]}") from None
    if error.status in (401, 403):
        raise InputError(f"MESHPLAN_API_KEY: {error.detail} {error.hint}") from None
    raise InputError(error.detail) from None

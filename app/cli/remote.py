"""Runs a search on a server, and answers as if it had run here."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from pydantic import ValidationError

from app.answers.schemas import SearchDocument
from app.calibrations.constants import FIELD
from app.jobs.assumed import joined
from app.jobs.job import SCHEMA_VERSION, Job
from documents.errors import InputError
from documents.hashing import fingerprint
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile
from meshplan import __version__
from meshplan.client import Client, MeshplanError, Study
from search.result import Progress
from search.stepwise import ProgressCallback

FOUND = (
    "counts",
    "rejections",
    "proof",
    "timing",
    "plans",
    "baseline",
    "nearest",
    "physics_best",
    "nearest_launchable",
    "paired_error",
    "space",
    "by_tensor",
    "refinement",
    "infeasible",
)  # in the order of a local answer


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
            found = {
                **study.result,
                "rejections": client.rejections(study.id),
                "plans": [plan.document for plan in client.plans(study.id)],
            }
    except MeshplanError as error:
        _refuse(error, url)
    document = {
        "schema_version": SCHEMA_VERSION,
        "version": study.document["version"],
        "job": study.document["job"],
        "assumptions": joined(study.document["assumptions"], job.assumptions),
        "warnings": list(job.warnings),
        "priced_with": _priced_with(study),
        **{name: found[name] for name in FOUND if name in found},  # an older server knows fewer
    }
    try:
        return SearchDocument.model_validate(document)
    except ValidationError:
        raise InputError(
            f"--server: {url} answers as version {document['version']} does, which this one ({__version__}) does not read; "
            "take the same version on both sides."
        ) from None


def _priced_with(study: Study) -> dict[str, Any]:
    """The hashes of what the server priced with."""
    profile = parse_profile(study.document["hardware_profile"], f"study {study.id}")
    return {
        "version": study.document["version"],
        "calibration": study.document["calibration"].get("fingerprint"),
        "hardware_profile": fingerprint(profile),
    }


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

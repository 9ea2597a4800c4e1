"""Searches and sweeps on a server, with the same answers as local ones."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from pydantic import ValidationError

from app.answers.schemas import SearchDocument
from app.answers.stored import search_document_of
from app.answers.targets import with_usual_target
from app.calibrations.constants import FIELD
from app.catalogue.models.presets import known_name
from app.jobs.assumed import joined
from app.jobs.job import Job, parse_job
from app.language.choice import Language
from app.rl.job import RlJob
from app.rl.schemas import RlSearchDocument
from app.sweeps.points import Source, first_jobs
from app.sweeps.schemas import SweepDocument
from app.sweeps.service import SweepProgress
from documents.errors import InfeasibleError, InputError
from documents.sentences import Sentence
from hardware_profiles import catalogue
from meshplan import __version__
from meshplan.client import Client, MeshplanError, Study
from search.post_training.search import PlacementProgress
from search.session.progress import Progress, ProgressCallback, ProgressT


def remote_search_document(
    job: Job, url: str, on_progress: ProgressCallback, labels: Mapping[str, Any], language: Language = "en"
) -> SearchDocument:
    """Result of a search from the server at ``url``; an interrupt cancels the study.

    ``labels`` of the study: ``name``, ``tags``, ``note``. ``language``: of the sentences in the document.
    """
    check_known(job)
    with _connected(url, language) as client:
        study = _finished(client.submit(job.document, **labels), client, on_progress, Progress)
        rejections, plans = client.rejections(study.id), [plan.document for plan in client.plans(study.id)]
    try:
        return search_document_of(
            study.document,
            rejections,
            plans,
            assumptions=joined(study.document["assumptions"], job.assumptions),
            warnings=[*study.document["warnings"], *_beyond_document(job)],
            no_target_fits=job.no_target_fits,
        )
    except ValidationError:
        raise _unread(url, study) from None


def _beyond_document(job: Job) -> list[str]:
    """Warnings that the job's document does not lead to again, such as those of a target that was chosen here."""
    again = with_usual_target(parse_job(job.document)).warnings
    return [sentence for sentence in job.warnings if sentence not in again]


def check_known(job: Job) -> None:
    """``InputError`` for a job whose files a server does not have."""
    hardware = job.document["cluster"]["hardware"]
    if hardware not in catalogue.names():
        raise InputError(
            Sentence("cluster.hardware: {!r} is a file of this machine; a server knows its own profiles by name.", hardware)
        )
    if job.calibration is not None and "/" in job.calibration:
        raise InputError(
            Sentence(
                "{}: {!r} is a file of this machine; with --server, give the id of a "
                "calibration that it stores (GET /v1/calibrations).",
                FIELD,
                job.calibration,
            )
        )


def remote_sweep_document(
    source: Source,
    url: str,
    on_progress: Callable[[SweepProgress], bool | None],
    labels: Mapping[str, Any],
    language: Language = "en",
) -> SweepDocument:
    """Result of a sweep from the server at ``url``; an interrupt cancels the study."""
    document = dict(source.document)
    if isinstance(document.get("model"), str) and known_name(document["model"]) is None:
        document["model"] = first_jobs(source, lambda job: None)[0].document["model"]  # a file of this machine
    with _connected(url, language) as client:
        study = _finished(client.submit(document, kind="sweep", **labels), client, on_progress, SweepProgress)
    try:
        return SweepDocument.model_validate(study.result)
    except ValidationError:
        raise _unread(url, study) from None


def remote_rl_search_document(
    given: Mapping[str, Any],
    job: RlJob,
    url: str,
    on_progress: Callable[[PlacementProgress], bool | None],
    labels: Mapping[str, Any],
    language: Language = "en",
) -> RlSearchDocument:
    """Result of a post-training search from the server at ``url``; an interrupt cancels the study.

    ``given`` is the content of the job file.
    """
    document, resolved = copy.deepcopy({**given}), job.document
    if isinstance(document["model"], str) and (document["model"].endswith(".json") or "/" in document["model"]):
        document["model"] = resolved["model"]  # a file of this machine
    lengths = document["post_training"]["lengths"]
    if isinstance(lengths.get("histogram"), str):
        lengths["histogram"] = resolved["post_training"]["lengths"]["histogram"]
    with _connected(url, language) as client:
        study = _finished(client.submit(document, kind="rl", **labels), client, on_progress, PlacementProgress)
    result = study.result or {}
    if result.get("why_none") is not None:
        raise InfeasibleError(result["why_none"])
    try:
        return RlSearchDocument.model_validate({name: value for name, value in result.items() if name != "why_none"})
    except ValidationError:
        raise _unread(url, study) from None


def remote_report(url: str, study_id: str, form: str, language: Language) -> str:
    """The report of a study on the server at ``url``."""
    with _connected(url, language) as client:
        return client.report(study_id, form=form, language=language)


def keep_verification(url: str, study_id: str, plan_id: str, counts: Mapping[str, Any]) -> bool:
    """Whether the counts agree with the price of the server, which keeps them with the plan."""
    with _connected(url, "en") as client:
        return bool(client.keep_verification(study_id, plan_id, counts)["verification"]["passed"])


@contextmanager
def _connected(url: str, language: Language) -> Iterator[Client]:
    try:
        with Client(url, api_key=os.environ.get("MESHPLAN_API_KEY"), language=language) as client:
            yield client
    except MeshplanError as error:
        _refuse(error, url)


def _finished(study: Study, client: Client, on_progress: Callable[[ProgressT], bool | None], far: type[ProgressT]) -> Study:
    """Wait for the submitted study's answer; an interrupt cancels the study."""
    try:
        for event in client.events(study.id):
            if event.kind == "progress":
                on_progress(far(**{name: event.data[name] for name in far.__dataclass_fields__ if name in event.data}))
    except KeyboardInterrupt:
        client.cancel(study.id)
    study = client.wait(study.id)
    if study.result is None:
        raise RuntimeError(f"study {study.id} is {study.state}: {study.error or 'it left no result'}")
    return study


def _unread(url: str, study: Study) -> InputError:
    return InputError(
        Sentence(
            "--server: {} answers as version {} does, which this one ({}) does not read; take the same version on both sides.",
            url,
            study.document["version"],
            __version__,
        )
    )


def _refuse(error: MeshplanError, url: str) -> NoReturn:
    if error.status >= 500:
        raise RuntimeError(f"the server at {url} failed: {error.detail}") from error
    if error.status == 0:
        hint = error.hint or Sentence("Give the URL that it printed.")
        raise InputError(Sentence("--server: {}; {}{}", error.detail.rstrip("."), hint[:1].lower(), hint[1:])) from None
    if error.status in (401, 403):
        raise InputError(f"MESHPLAN_API_KEY: {error.detail} {error.hint}") from None
    raise InputError(error.detail) from None

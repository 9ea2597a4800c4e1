"""The report of a stored study."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from app.answers.stored import search_document_of
from app.language.choice import Language
from app.reports.report import Form, report
from app.studies import service as studies
from app.studies.errors import StudyConflict
from app.studies.searches import SEARCH
from app.text.json_documents import plain
from documents.sentences import Sentence
from meshplan import __version__

if TYPE_CHECKING:
    from app.storage.session import Database

MAX_PLANS = 1000  # most plans that a search may list
KIND_TEXTS = {"sweep": Sentence("a sweep"), "rl": Sentence("a search of post-training placements")}


def study_report(database: Database, study_id: str, form: Form, language: Language) -> str:
    """The report; ``StudyNotFound``, or ``StudyConflict`` if it is no search, or has no result that this version can read."""
    with database.read() as session:
        study = studies.get_study(session, study_id)
        plans = studies.list_plans(session, study_id, limit=MAX_PLANS).items
        rejections = studies.list_rejections(session, study_id, limit=MAX_PLANS).items
    if study.kind != SEARCH.name:
        raise StudyConflict(
            Sentence(
                "Study {} is {}, and reports are of searches; its `result` has what it found.", study_id, KIND_TEXTS[study.kind]
            )
        )
    if study.result is None:
        raise StudyConflict(Sentence("Study {} is {}; there is a report of what has finished.", study_id, study.state))
    try:
        document = search_document_of(plain(study), rejections, plans)
    except ValidationError:
        raise StudyConflict(
            Sentence("The study was stored by version {}, which {} does not read.", study.version, __version__)
        ) from None
    return report(document, form, language, datetime.fromtimestamp(study.created_at_s, UTC).date(), study.name)

"""Operations on studies. Every function works in the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from app.http.ownership import Visibility
from app.storage.clock import now_s
from app.storage.tables import Event, Study, StudyTag
from app.studies import queue, queue_order, repository
from app.studies.errors import PlanNotFound, StudyChanged, StudyConflict, StudyNotFound
from app.studies.schemas import (
    COMPARED,
    BestPlan,
    EventView,
    ListedStudy,
    Page,
    QueuePlace,
    RankedPlan,
    RankedVariant,
    StudyDocument,
    StudySummary,
    Trial,
)
from app.studies.work import Asked, Kind
from documents.late_methods import dataclass
from documents.sentences import Sentence
from meshplan import __version__
from search.results.search_result import Rejection

Archived = Literal["true", "false", "any"]
RESUMABLE = ("cancelled", "failed")
FINISHED = ("completed", *RESUMABLE)
_BEST_FIELDS = tuple(name for name in BestPlan.model_fields if name != "plan_id")
_RENAMED = {"model": "model_name", "etag_version": "row_version"}

Item = TypeVar("Item")
View = TypeVar("View", bound=StudySummary)


def create_study(
    session: Session,
    kind: Kind,
    asked: Asked,
    *,
    owner: str | None = None,
    visibility: Visibility = "private",
    priority: int = 0,
    name: str = "",
    tags: Sequence[str] = (),
    note: str = "",
) -> StudyDocument:
    """Queue the request, with a copy of all its inputs. A study without an owner belongs to everybody."""
    study = Study(
        id=secrets.token_hex(8),
        kind=kind.name,
        owner=owner,
        visibility="public" if owner is None else visibility,
        priority=priority,
        name=name,
        note=note,
        version=__version__,
        state="queued",
        created_at_s=now_s(session),
        **vars(asked),
    )
    queue_order.queue_up(session, study)
    repository.add_study(session, study)
    repository.replace_tags(session, study.id, tags)
    repository.write_text(session, study)
    return _document(session, study)


def repeat_study(session: Session, study_id: str) -> StudyDocument:
    """Queue a finished or running study once more, with the same inputs."""
    study = _study(session, study_id)
    copied = ("kind", "owner", "visibility", "priority", *(part.name for part in fields(Asked)))
    inputs = {name: getattr(study, name) for name in copied}
    copy = Study(id=secrets.token_hex(8), version=__version__, state="queued", created_at_s=now_s(session), **inputs)
    queue_order.queue_up(session, copy)
    repository.add_study(session, copy)
    repository.write_text(session, copy)
    return _document(session, copy)


def get_study(session: Session, study_id: str) -> StudyDocument:
    return _document(session, _study(session, study_id))


def get_state(session: Session, study_id: str) -> str:
    state = repository.find_state(session, study_id)
    if state is None:
        raise StudyNotFound(Sentence("There is no study {}.", study_id))
    return state


@dataclass(frozen=True, kw_only=True)
class StudyFilter:
    """Which studies are listed: those with all of ``tags``, and each word of ``text`` in name, tags, note, id, model, hardware
    or error."""

    state: str | None = None
    kind: str | None = None
    model: str | None = None
    hardware: str | None = None
    owner: str | None = None
    tags: Sequence[str] = ()
    archived: Archived = "any"
    text: str = ""

    def conditions(self) -> list[ColumnElement[bool]]:
        """What a row must meet; words apart."""
        wanted = ((Study.state, self.state), (Study.kind, self.kind), (Study.model_name, self.model), (Study.owner, self.owner))
        found = [column == value for column, value in wanted if value is not None]
        if self.hardware is not None:  # a sweep may have several
            found.append((", " + Study.hardware + ", ").contains(Sentence(", {}, ", self.hardware), autoescape=True))
        if self.archived != "any":
            found.append(Study.archived.is_(self.archived == "true"))
        return found + [Study.id.in_(select(StudyTag.study_id).where(StudyTag.tag == tag)) for tag in self.tags]

    def words(self) -> list[str]:
        """Words that the text of a study holds. Those of model and hardware are a hint: the conditions ask them exactly."""
        return [*self.text.split(), *(value for value in (self.model, self.hardware) if value is not None)]


EVERYTHING = StudyFilter()


def list_studies(
    session: Session,
    chosen: StudyFilter = EVERYTHING,
    *,
    after: int | None = None,
    limit: int = 50,
    seen: Sequence[ColumnElement[bool]] = (),
) -> Page[ListedStudy]:
    """Studies that ``seen`` allows, newest first, each with its first plan."""
    studies = repository.list_studies(session, after, limit + 1, [*seen, *chosen.conditions()], chosen.words())
    next_after = studies[limit - 1].number if len(studies) > limit else None
    ids = [study.id for study in studies[:limit]]
    best, proofs = repository.best_plans(session, ids, _BEST_FIELDS), repository.proofs(session, ids)
    tagged = repository.tags_of(session, ids)
    listed = (
        _view(study, ListedStudy, best=best.get(study.id), proved_best=proofs.get(study.id), tags=tagged.get(study.id, []))
        for study in studies[:limit]
    )
    return Page(tuple(listed), next_after)


def count_studies(
    session: Session, chosen: StudyFilter = EVERYTHING, *, seen: Sequence[ColumnElement[bool]] = ()
) -> dict[str, int]:
    """Number of studies that ``list_studies`` lists on all its pages, by state."""
    return repository.count_listed(session, [*seen, *chosen.conditions()], chosen.words())


def figures(session: Session) -> dict[str, int | float]:
    """Figures of the queue: the longest wait, studies by state, deaths of workers."""
    now = now_s(session)
    waiting, running = Study.state == "queued", Study.state == "running"
    oldest_s = session.scalar(select(func.min(Study.queued_at_s)).where(waiting))
    owners = session.scalar(select(func.count(func.distinct(func.coalesce(Study.owner, "")))).where(waiting))
    held = session.scalar(select(func.count()).where(running, Study.lease_expires_at_s >= now))
    left = session.scalar(select(func.count()).where(running, Study.lease_expires_at_s < now))
    deaths = session.scalar(select(func.max(Study.attempts_without_progress)).where(running))
    return {
        "queue_age_seconds": 0.0 if oldest_s is None else max(0.0, now - oldest_s),
        "queue_owners": owners or 0,
        "leases": held or 0,
        "overdue_leases": left or 0,
        "attempts_without_progress": deaths or 0,
        "running_attempts": int(session.scalar(select(func.sum(Study.attempts)).where(running)) or 0),
    }


def count_by_state(session: Session, seen: Sequence[ColumnElement[bool]] = ()) -> dict[str, int]:
    """Number of studies that ``seen`` allows, by state."""
    return repository.count_by_state(session, seen)


def queue_place(session: Session, study_id: str) -> QueuePlace:
    """The number of studies before a queued one, and of those that run."""
    study = _study(session, study_id)
    running = session.scalar(select(func.count()).where(Study.state == "running")) or 0
    return QueuePlace(num_ahead=queue_order.num_ahead(session, study) if study.state == "queued" else None, num_running=running)


def cancel_study(session: Session, study_id: str) -> StudyDocument:
    """A queued study is cancelled at once, a running one by its worker, within a batch."""
    study = _study(session, study_id, for_update=True)
    if study.state in ("completed", "failed"):
        raise StudyConflict(Sentence("The study is {}; only a queued or running one can be cancelled.", study.state))
    if study.state == "queued":
        study.state, study.finished_at_s = "cancelled", now_s(session)
        repository.touch(session, study)
    elif study.state == "running" and not study.cancel_requested:
        study.cancel_requested = True
        repository.touch(session, study)
    return _document(session, study)


def resume_study(session: Session, study_id: str) -> StudyDocument:
    """Resume a cancelled or failed study from its checkpoint."""
    study = _study(session, study_id, for_update=True)
    if study.state not in RESUMABLE:
        raise StudyConflict(Sentence("The study is {}; only a cancelled or failed one can be resumed.", study.state))
    if study.checkpoint is not None:
        kept = dict(study.checkpoint)
        study.warnings, study.checkpoint = study.warnings[kept.pop(queue.NUM_DOUBTS, 0) :], kept
    study.state, study.cancel_requested, study.error, study.finished_at_s = "queued", False, None, None
    study.attempts_without_progress = 0
    queue_order.queue_up(session, study)
    repository.touch(session, study)
    repository.write_text(session, study)
    return _document(session, study)


def change_study(
    session: Session,
    study_id: str,
    *,
    visibility: Visibility | None = None,
    priority: int | None = None,
    name: str | None = None,
    tags: Sequence[str] | None = None,
    note: str | None = None,
    archived: bool | None = None,
    etag_version: int | None = None,
) -> StudyDocument:
    """Change the given values; with ``etag_version``, only if the caller has seen the study's latest version."""
    study = _study(session, study_id, for_update=True)
    _check_seen(study, etag_version)
    if visibility not in (None, "public") and study.owner is None:
        raise StudyConflict(Sentence("The study belongs to nobody, so that everybody sees it."))
    changes = {"visibility": visibility, "priority": priority, "name": name, "note": note, "archived": archived}
    changed = {column: value for column, value in changes.items() if value not in (None, getattr(study, column))}
    for column, value in changed.items():
        setattr(study, column, value)
    is_tagged = tags is not None and list(tags) != repository.tags_of(session, [study_id]).get(study_id, [])
    if tags is not None and is_tagged:
        repository.replace_tags(session, study_id, tags)
    if changed or is_tagged:
        repository.touch(session, study)
        repository.write_text(session, study)
    return _document(session, study)


def delete_study(session: Session, study_id: str, *, etag_version: int | None = None) -> None:
    """Delete the study and its results; with ``etag_version``, only if the caller has seen its latest version."""
    study = _study(session, study_id, for_update=True)
    _check_seen(study, etag_version)
    if queue.is_held(study, now_s(session)):
        raise StudyConflict(Sentence("The study is running; cancel it first."))
    repository.delete_study(session, study)


def list_plans(session: Session, study_id: str, *, after: int | None = None, limit: int = 50) -> Page[dict[str, Any]]:
    """Plans in the form of ``search --json``, best first."""
    _check_exists(session, study_id)
    plans = repository.list_plans(session, study_id, after, limit + 1)
    return _page([plan.document for plan in plans], [plan.rank for plan in plans], limit)


def list_ranking(session: Session, study_id: str, *, after: int | None = None, limit: int = 50) -> Page[RankedPlan]:
    """Plans with the fields for comparison, best first."""
    page = list_plans(session, study_id, after=after, limit=limit)
    return Page(tuple(_ranked(plan) for plan in page.items), page.next_after)


def _ranked(plan: dict[str, Any]) -> RankedPlan:
    return RankedPlan(
        **{name: plan[name] for name in ("rank", "plan_id", "strategy", "launchable_on")},
        rank_group=plan.get("rank_group"),
        fastest=plan.get("fastest"),
        estimate={name: plan["estimate"].get(name) for name in COMPARED},
        variants=[RankedVariant(**{name: variant[name] for name in RankedVariant.model_fields}) for variant in plan["variants"]],
    )


def get_plan(session: Session, study_id: str, plan_id: str) -> dict[str, Any]:
    _check_exists(session, study_id)
    plan = repository.find_plan(session, study_id, plan_id)
    if plan is None:
        raise PlanNotFound(Sentence("The study has no plan {}.", plan_id))
    return plan.document


def list_trials(session: Session, study_id: str, *, after: int | None = None, limit: int = 50) -> Page[Trial]:
    """Trials of a sampler, in order."""
    _check_exists(session, study_id)
    trials = repository.list_trials(session, study_id, after, limit + 1)
    items = [Trial.model_validate({name: getattr(trial, name) for name in Trial.model_fields}) for trial in trials]
    return _page(items, [trial.number for trial in trials], limit)


def list_points(session: Session, study_id: str, *, after: int | None = None, limit: int = 50) -> Page[dict[str, Any]]:
    """The finished points of a sweep, in order."""
    _check_exists(session, study_id)
    points = repository.list_points(session, study_id, after, limit + 1)
    return _page([point.document for point in points], [point.number for point in points], limit)


def list_rejections(session: Session, study_id: str, *, after: int | None = None, limit: int = 50) -> Page[Rejection]:
    """Broken rules, the most frequent first."""
    _check_exists(session, study_id)
    rejections = repository.list_rejections(session, study_id, after, limit + 1)
    items = [Rejection(rule=row.rule, count=row.count, example=row.example) for row in rejections]
    return _page(items, [row.position for row in rejections], limit)


def events_since(session: Session, study_id: str, sequence: int = 0, limit: int = 200) -> tuple[EventView, ...]:
    _check_exists(session, study_id)
    events = repository.list_events(session, study_id, sequence, limit)
    return tuple(map(_event, events))


@dataclass(frozen=True)
class Version:
    """Version of a study, which every event raises, and what decides who may read it."""

    number: int
    is_finished: bool
    owner: str | None
    visibility: str


def versions(session: Session, study_ids: Sequence[str]) -> dict[str, Version]:
    """The versions of the studies that exist, by id."""
    rows = repository.list_versions(session, study_ids)
    return {row.id: Version(row.row_version, row.state in FINISHED, row.owner, row.visibility) for row in rows}


def latest_events(session: Session, study_id: str, sequence: int, limit: int) -> tuple[EventView, ...]:
    """The last events after ``sequence``, in order."""
    return tuple(map(_event, reversed(repository.latest_events(session, study_id, sequence, limit))))


def _event(event: Event) -> EventView:
    return EventView(event.sequence, event.kind, event.data, event.at_s)


def _study(session: Session, study_id: str, *, for_update: bool = False) -> Study:
    study = repository.find_study(session, study_id, for_update=for_update)
    if study is None:
        raise StudyNotFound(Sentence("There is no study {}.", study_id))
    return study


def _check_seen(study: Study, etag_version: int | None) -> None:
    if etag_version is not None and study.row_version != etag_version:
        raise StudyChanged(Sentence("The study has changed since it was read."))


def _check_exists(session: Session, study_id: str) -> None:
    if not repository.is_study(session, study_id):
        raise StudyNotFound(Sentence("There is no study {}.", study_id))


def _document(session: Session, study: Study) -> StudyDocument:
    return _view(study, StudyDocument, tags=repository.tags_of(session, [study.id]).get(study.id, []))


def _view(study: Study, kind: type[View], **others: Any) -> View:
    columns = {name: getattr(study, _RENAMED.get(name, name)) for name in kind.model_fields if name not in others}
    return kind.model_validate({**columns, **others})


def _page(items: Sequence[Item], keys: Sequence[int], limit: int) -> Page[Item]:
    return Page(tuple(items[:limit]), keys[limit - 1] if len(items) > limit else None)

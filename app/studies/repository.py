"""Queries of the tables of studies and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, defer, undefer

from app.storage.clock import now_s
from app.storage.tables import Event, IdempotencyRecord, Plan, Point, Rejection, Study, StudyTag, StudyText, Table, Trial
from documents.sentences import plain

STATE, PROGRESS = "state", "progress"
_MANY = 500  # most values of one statement
_INPUTS = tuple(undefer(column) for column in (Study.space, Study.hardware_profile, Study.calibration, Study.note))
_SUMMARY = tuple(defer(column) for column in (Study.job, Study.assumptions, Study.warnings, Study.result))

Row = dict[str, Any]
Columns = TypeVarTuple("Columns")
Owned = TypeVar("Owned", Plan, Trial, Point, Rejection, Event)


def add_study(session: Session, study: Study) -> None:
    session.add(study)
    session.flush()
    announce_state(session, study)


def find_study(session: Session, study_id: str, *, for_update: bool = False) -> Study | None:
    """The study with its inputs; ``for_update`` locks its row until the transaction ends."""
    query = select(Study).where(Study.id == study_id).options(*_INPUTS).execution_options(populate_existing=True)
    return session.scalars(query.with_for_update() if for_update else query).one_or_none()


def is_study(session: Session, study_id: str) -> bool:
    return session.scalar(select(Study.number).where(Study.id == study_id)) is not None


def find_state(session: Session, study_id: str) -> str | None:
    return session.scalar(select(Study.state).where(Study.id == study_id))


def list_studies(
    session: Session,
    after: int | None,
    limit: int,
    filters: Sequence[ColumnElement[bool]],
    words: Sequence[str] = (),
) -> Sequence[Study]:
    """Newest first, without the columns that only the page of a study needs.

    ``words`` are words of its text, in any case.
    """
    query = _chosen(session, select(Study.number), filters, words).order_by(Study.number.desc()).limit(limit)
    numbers = session.scalars(query if after is None else query.where(Study.number < after)).all()
    chosen = select(Study).where(Study.number.in_(numbers)).options(*_SUMMARY).order_by(Study.number.desc())
    return session.scalars(chosen).all()


def count_listed(session: Session, filters: Sequence[ColumnElement[bool]], words: Sequence[str] = ()) -> dict[str, int]:
    """Number of studies of which ``list_studies`` lists pages, by state."""
    counted = _chosen(session, select(Study.state, func.count()), filters, words).group_by(Study.state)
    return {state: number for state, number in session.execute(counted)}


def _chosen(
    session: Session, query: Select[*Columns], filters: Sequence[ColumnElement[bool]], words: Sequence[str]
) -> Select[*Columns]:
    # Rows of studies are wide: they are chosen by a narrow index and the narrow table of texts.
    query = query.with_hint(Study, "INDEXED BY ix_meshplan_studies_listed", "sqlite")
    if words:
        query = query.join(StudyText, StudyText.number == Study.number)
        position = func.instr if session.get_bind().dialect.name == "sqlite" else func.strpos
        query = query.where(*(position(StudyText.text, word.casefold()) > 0 for word in words))
    return query.where(*filters)


def write_text(session: Session, study: Study) -> None:
    """Store the words by which lists find the study; call this after its labels, tags or error have changed."""
    error = "" if study.error is None else plain(study.error)
    tags = tags_of(session, [study.id]).get(study.id, [])
    parts = (study.name or "", *tags, study.note or "", study.id, study.model_name, study.hardware, error)
    session.merge(StudyText(number=study.number, text="\n".join(parts).casefold()))
    session.flush()


def tags_of(session: Session, study_ids: Sequence[str]) -> dict[str, list[str]]:
    """Sorted tags by study, for studies with tags."""
    query = select(StudyTag.study_id, StudyTag.tag).where(StudyTag.study_id.in_(study_ids))
    found: dict[str, list[str]] = {}
    for study_id, tag in session.execute(query):
        found.setdefault(study_id, []).append(tag)
    return {study_id: sorted(tags) for study_id, tags in found.items()}  # sorted in Python, because databases sort differently


def replace_tags(session: Session, study_id: str, tags: Sequence[str]) -> None:
    _replace(session, StudyTag, StudyTag.study_id, study_id, [{"tag": tag} for tag in tags])


def best_plans(session: Session, study_ids: Sequence[str], estimate_fields: Sequence[str]) -> dict[str, Row]:
    """The plan that each study recommends: id, and the named numbers of its estimate. Older studies list it first."""
    recommended = Study.result["recommended", "plan_id"].as_string()
    is_it = or_(Plan.plan_id == recommended, and_(recommended.is_(None), Plan.rank == 1))
    numbers = [Plan.document["estimate", name].as_float().label(name) for name in estimate_fields]
    query = select(Plan.study_id, Plan.plan_id, *numbers).join(Study, Study.id == Plan.study_id)
    query = query.where(Plan.study_id.in_(study_ids), is_it)
    return {
        row["study_id"]: {name: row[name] for name in ("plan_id", *estimate_fields)} for row in session.execute(query).mappings()
    }


def proofs(session: Session, study_ids: Sequence[str]) -> dict[str, bool | None]:
    """Whether each study's best plan is proved; None without a result."""
    proved = Study.result["proof", "proved_best"].as_boolean()
    return {
        study_id: is_proved for study_id, is_proved in session.execute(select(Study.id, proved).where(Study.id.in_(study_ids)))
    }


def count_by_state(session: Session, seen: Sequence[ColumnElement[bool]] = ()) -> dict[str, int]:
    counted = session.execute(select(Study.state, func.count()).where(*seen).group_by(Study.state))
    return {state: number for state, number in counted}


def touch(session: Session, study: Study) -> None:
    """Mark the study as changed for readers: a new version, and an event for followers."""
    study.row_version += 1
    session.flush()
    announce_state(session, study)


def announce_state(session: Session, study: Study) -> None:
    """Add a state event. Call this after the study's row was written: the row lock orders its events by commit."""
    data = {"state": study.state, "cancel_requested": study.cancel_requested, "attempts": study.attempts, "error": study.error}
    session.add(Event(study_id=study.id, kind=STATE, data=data, at_s=now_s(session)))
    session.flush()


def announce_progress(session: Session, study_id: str, progress: Row) -> None:
    session.add(Event(study_id=study_id, kind=PROGRESS, data=progress, at_s=now_s(session)))


def forget_progress(session: Session, study_id: str) -> None:
    """Delete progress events of a finished study; its row has the last progress."""
    session.execute(delete(Event).where(Event.study_id == study_id, Event.kind == PROGRESS))


def delete_study(session: Session, study: Study) -> None:
    session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.study_id == study.id))
    session.delete(study)
    session.flush()


def replace_plans(session: Session, study_id: str, plans: Sequence[Row]) -> None:
    _replace(session, Plan, Plan.study_id, study_id, plans)


def replace_rejections(session: Session, study_id: str, rejections: Sequence[Row]) -> None:
    _replace(session, Rejection, Rejection.study_id, study_id, rejections)


def add_records(session: Session, table: type[Trial | Point], study_id: str, records: Sequence[Row]) -> None:
    if records:
        session.execute(insert(table), [{"study_id": study_id, **record} for record in records])


def forget_records(session: Session, study_id: str) -> None:
    for table in (Trial, Point):
        session.execute(delete(table).where(table.study_id == study_id))


def all_records(session: Session, table: type[Trial | Point], study_id: str) -> Sequence[Row]:
    """All records in order; trials without strategies, which follow from the sampler's parameters."""
    columns = [column for column in table.__table__.c if column.name not in ("study_id", "strategy")]
    query = select(*columns).where(table.study_id == study_id).order_by(table.number)
    return [dict(row) for row in session.execute(query).mappings()]


def list_plans(session: Session, study_id: str, after: int | None, limit: int) -> Sequence[Plan]:
    return _page(session, Plan, Plan.rank, study_id, after, limit)


def list_trials(session: Session, study_id: str, after: int | None, limit: int) -> Sequence[Trial]:
    return _page(session, Trial, Trial.number, study_id, after, limit)


def list_points(session: Session, study_id: str, after: int | None, limit: int) -> Sequence[Point]:
    return _page(session, Point, Point.number, study_id, after, limit)


def list_rejections(session: Session, study_id: str, after: int | None, limit: int) -> Sequence[Rejection]:
    return _page(session, Rejection, Rejection.position, study_id, after, limit)


def list_events(session: Session, study_id: str, after: int, limit: int) -> Sequence[Event]:
    return _page(session, Event, Event.sequence, study_id, after, limit)


def latest_events(session: Session, study_id: str, after: int, limit: int) -> Sequence[Event]:
    """Newest first."""
    query = select(Event).where(Event.study_id == study_id, Event.sequence > after)
    return session.scalars(query.order_by(Event.sequence.desc()).limit(limit)).all()


def list_versions(session: Session, study_ids: Sequence[str]) -> Iterator[Any]:
    """Rows of id, row_version, state, owner and visibility."""
    columns = (Study.id, Study.row_version, Study.state, Study.owner, Study.visibility)
    for start in range(0, len(study_ids), _MANY):
        yield from session.execute(select(*columns).where(Study.id.in_(study_ids[start : start + _MANY])))


def find_plan(session: Session, study_id: str, plan_id: str) -> Plan | None:
    return session.scalars(select(Plan).where(Plan.study_id == study_id, Plan.plan_id == plan_id)).one_or_none()


def find_idempotent(session: Session, owner: str, key: str) -> IdempotencyRecord | None:
    return session.get(IdempotencyRecord, (owner, key))


def add_idempotent(session: Session, record: IdempotencyRecord) -> None:
    session.add(record)
    session.flush()


def forget_idempotent(session: Session, most: int, *, older_than_s: float) -> int:
    """Delete up to ``most`` old idempotent answers; return their number."""
    old = select(IdempotencyRecord.created_at_s).where(IdempotencyRecord.created_at_s < now_s(session) - older_than_s)
    times = session.scalars(old.order_by(IdempotencyRecord.created_at_s).limit(most)).all()
    if not times:
        return 0
    found: Any = session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.created_at_s <= times[-1]))
    return int(found.rowcount)


def _page(
    session: Session, table: type[Owned], key: InstrumentedAttribute[int], study_id: str, after: int | None, limit: int
) -> Sequence[Owned]:
    query = select(table).where(table.study_id == study_id).order_by(key).limit(limit)
    return session.scalars(query if after is None else query.where(key > after)).all()


def _replace(session: Session, table: type[Table], owner: InstrumentedAttribute[str], study_id: str, rows: Sequence[Row]) -> None:
    session.execute(delete(table).where(owner == study_id))
    if rows:
        session.execute(insert(table), [{"study_id": study_id, **row} for row in rows])

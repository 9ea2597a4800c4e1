"""The order of the queue: owners take turns, and an owner's studies are ordered by priority, then age.

A queued study gets a turn after its owner's other studies, and not before the current turn. Studies are taken by turn, so that
of two waiting owners none gets two studies while the other gets none, however many each has queued. Turn 0 means taken before:
a study whose worker died, or returned it, continues before any new one begins.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.tables import Study

MAX_PRIORITY = 10  # the lowest is -10; priorities order the studies of one owner only


def is_owned_by(owner: str | None) -> ColumnElement[bool]:
    return Study.owner.is_(None) if owner is None else Study.owner == owner  # `is not distinct from` would use no index


def next_turn(session: Session, owner: str | None) -> int:
    """The turn of a study that is queued now."""
    present = session.scalar(select(func.min(Study.turn)).where(*_WAITING)) or 1
    last = session.scalar(select(func.max(Study.turn)).where(*_WAITING, is_owned_by(owner))) or 0
    return max(present, last + 1)


def queue_up(session: Session, study: Study) -> None:
    """Put the study into the queue."""
    study.turn, study.queued_at_s = next_turn(session, study.owner), now_s(session)


def taken(session: Session, study: Study) -> Study:
    """The study that gets the given one's turn: its owner's first, which swaps turns with it."""
    chosen = study
    if study.state == "queued" and study.turn > 0:
        query = select(Study.number).where(*_WAITING, is_owned_by(study.owner)).order_by(Study.priority.desc(), Study.number)
        number = session.scalar(
            query.limit(1).with_for_update(skip_locked=True)
        )  # only the needed columns, for thousands of rows
        chosen = session.get(Study, number) or study
        study.turn = chosen.turn
    chosen.turn = 0
    return chosen


def num_ahead(session: Session, study: Study) -> int:
    """The number of studies that are taken before this queued one, if no other is queued."""
    turn, number = study.turn, study.number
    if turn > 0:  # its owner's studies share their turns in another order
        first = or_(Study.priority > study.priority, and_(Study.priority == study.priority, Study.number < study.number))
        of_owner = (*_WAITING, is_owned_by(study.owner))
        own_place = session.scalar(select(func.count()).where(*of_owner, first)) or 0
        held = select(Study.turn, Study.number).where(*of_owner).order_by(Study.turn, Study.number).offset(own_place).limit(1)
        turn, number = session.execute(held).one()
    before = or_(Study.turn < turn, and_(Study.turn == turn, Study.number < number))
    return session.scalar(select(func.count()).where(Study.state == "queued", before)) or 0


_WAITING = (Study.state == "queued", Study.turn > 0)

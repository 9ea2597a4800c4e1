"""Whose study is next: owners take turns, each with its own studies by priority and then by age.

A study that is queued gets a turn behind its owner's others, and no earlier than the turn that is being given out. Studies are
taken by turn, so that of two owners who wait neither gets two while the other gets none, however many each has queued. A turn
of 0 was taken: a study whose worker has died, or has put it back, goes on before any new one begins.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from app.storage.clock import now_s
from app.storage.tables import Study

MAX_PRIORITY = 10  # and as far below 0: they order an owner's own studies, and nobody else's


def is_owned_by(owner: str | None) -> ColumnElement[bool]:
    return Study.owner.is_(None) if owner is None else Study.owner == owner  # `is not distinct from` would use no index


def next_turn(session: Session, owner: str | None) -> int:
    """Of a study that is queued now."""
    present = session.scalar(select(func.min(Study.turn)).where(*_WAITING)) or 1
    last = session.scalar(select(func.max(Study.turn)).where(*_WAITING, is_owned_by(owner))) or 0
    return max(present, last + 1)


def queue_up(session: Session, study: Study) -> None:
    """The study waits from now on."""
    study.turn, study.queued_at_s = next_turn(session, study.owner), now_s(session)


def taken(session: Session, study: Study) -> Study:
    """The study that gets the turn of the given one: its owner's first, which leaves its own turn to the given one."""
    chosen = study
    if study.state == "queued" and study.turn > 0:
        query = select(Study.number).where(*_WAITING, is_owned_by(study.owner)).order_by(Study.priority.desc(), Study.number)
        number = session.scalar(
            query.limit(1).with_for_update(skip_locked=True)
        )  # of rows by the thousand, no more than it takes
        chosen = session.get(Study, number) or study
        study.turn = chosen.turn
    chosen.turn = 0
    return chosen


_WAITING = (Study.state == "queued", Study.turn > 0)

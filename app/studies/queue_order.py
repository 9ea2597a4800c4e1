"""The order of the queue: owners take turns, and an owner's studies are ordered by priority, then age.

A queued study gets a turn after its owner's other studies, and not before the current turn. Studies are taken by turn, so that
of two waiting owners none gets two studies while the other gets none, however many each has queued. Turn 0 means taken before:
a study whose worker died, or returned it, continues before any new one begins.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
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


_WAITING = (Study.state == "queued", Study.turn > 0)

"""Events for the followers of studies: one query of the database serves all followers."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import structlog
from fastapi import Request

from app.http import keys
from app.http.ownership import standing
from app.http.places import Places
from app.http.problems import ServiceError
from app.http.security import LOCAL_CALLER, Principal
from app.storage.database_errors import DATABASE_AWAY, cause
from app.storage.session import Database
from app.studies import service
from app.studies.schemas import EventView
from documents.late_methods import dataclass
from documents.sentences import Sentence

POLL_S = 0.25
MAX_FOLLOWERS = 1000  # event streams, and requests that wait for a result
WINDOW = 200  # latest events of a study that are kept for its followers
_RETRY_AFTER_S = 30

log = structlog.get_logger()


@dataclass(frozen=True)
class News:
    """News of a study: its version, None once it is deleted, and the events after those that the caller has."""

    version: int | None
    is_finished: bool
    events: tuple[EventView, ...] = ()


class Follower:
    """A follower of a study, who may read until the key ends or the study becomes invisible to it."""

    def __init__(self, caller: Principal, feed: Feed) -> None:
        self.caller, self.feed = caller, feed
        self._is_barred = False

    def may_read(self) -> bool:
        """Whether the right to read still holds."""
        return not self._is_barred

    def bar(self) -> None:
        """End the right to read."""
        self._is_barred = True
        self.feed.wake()


class Feed:
    """The latest events of one study, for all its followers. For use in the event loop only."""

    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self.latest: News | None = None
        self._events: deque[EventView] = deque(maxlen=WINDOW)
        self._changed = asyncio.Event()

    @property
    def sequence(self) -> int | None:
        """Number of the last known event; None before the first query, 0 for a study without events."""
        if self.latest is None:
            return None
        return self._events[-1].sequence if self._events else 0

    def since(self, sequence: int) -> News | None:
        """News after that event; None if only the database has it."""
        if self.latest is None:
            return None
        is_whole = len(self._events) < WINDOW or sequence >= self._events[0].sequence
        if not is_whole:
            return None
        events = tuple(event for event in self._events if event.sequence > sequence)
        return News(self.latest.version, self.latest.is_finished, events)

    def add(self, news: News) -> None:
        self._events.extend(news.events)
        self.latest = News(news.version, news.is_finished)
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait until something has happened, or until the server must end."""
        await self._changed.wait()


class StudyFeeds:
    """All feeds of a server; the database is queried while there are followers."""

    def __init__(self, database: Database, stopping: threading.Event) -> None:
        self._database, self._stopping = database, stopping
        self._feeds: dict[str, Feed] = {}
        self._places = Places(MAX_FOLLOWERS)
        self._poller: asyncio.Task[None] | None = None

    @contextmanager
    def follow(self, study_id: str, caller: Principal) -> Iterator[Follower]:
        """A follower whose feed is kept up to date inside the block; ``NoPlaceError`` if there are too many followers."""
        with self._places.taken(caller.owner), self._followed(study_id, caller) as follower:
            yield follower

    @contextmanager
    def _followed(self, study_id: str, caller: Principal) -> Iterator[Follower]:
        feed = self._feeds.setdefault(study_id, Feed())
        follower = Follower(caller, feed)
        feed.followers.append(follower)
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            yield follower
        finally:
            feed.followers.remove(follower)
            if not feed.followers:
                self._feeds.pop(study_id, None)

    async def _poll(self) -> None:
        try:
            while self._feeds and not self._stopping.is_set():
                known = {study_id: (feed.latest, feed.sequence) for study_id, feed in self._feeds.items()}
                followers = {study_id: tuple(feed.followers) for study_id, feed in self._feeds.items()}
                try:
                    # A thread of its own, which never waits for those that answer requests.
                    found, barred = await asyncio.to_thread(self._look, known, followers)
                except DATABASE_AWAY as error:
                    log.warning("followers wait: the database is away", reason=cause(error))
                    found, barred = {}, []
                except Exception:  # streams must not hang for ever after an error
                    log.exception("followers wait")
                    found, barred = {}, []
                for follower in barred:
                    follower.bar()
                for study_id, news in found.items():
                    with suppress(KeyError):  # the last follower has left meanwhile
                        self._feeds[study_id].add(news)
                await asyncio.sleep(POLL_S)
        finally:
            self._poller = None
            for feed in self._feeds.values():
                feed.wake()

    def _look(
        self, known: Mapping[str, tuple[News | None, int | None]], followers: Mapping[str, Sequence[Follower]]
    ) -> tuple[dict[str, News], list[Follower]]:
        """News of the studies that have changed, and the followers who may no longer read."""
        found, barred = {}, []
        with self._database.read() as session:
            versions = service.versions(session, list(known))
            callers = {follower.caller.id for each in followers.values() for follower in each} - {LOCAL_CALLER}
            in_force = {LOCAL_CALLER, *(keys.in_force(session, callers) if callers else ())}
            for study_id, (latest, sequence) in known.items():
                version = versions.get(study_id)
                number = None if version is None else version.number
                if version is not None:
                    barred += [one for one in followers[study_id] if not _may_read(one.caller, version, in_force)]
                if latest is None or latest.version != number:
                    events = () if version is None else service.latest_events(session, study_id, sequence or 0, WINDOW)
                    found[study_id] = News(number, version is None or version.is_finished, events)
        return found, barred


def _may_read(caller: Principal, version: service.Version, in_force: Collection[str]) -> bool:
    return caller.id in in_force and standing(caller, version.owner, version.visibility) is not None


def no_place() -> ServiceError:
    """The refusal of an event stream for which there is no place."""
    return ServiceError(
        "unavailable",
        Sentence("{:,} event streams and waiting requests are open already, or most of them are yours.", MAX_FOLLOWERS),
        hint=Sentence("Close those that nobody reads, or GET the study now and then."),
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


def feeds_of(request: Request) -> StudyFeeds:
    """The feeds of the server that answers the request."""
    following = request.app.state.following
    assert isinstance(following, StudyFeeds)
    return following

"""A run of a claimed study: step by step, saved about once a second, to its end or the next pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace

import structlog
from sqlalchemy.orm import Session

from app.settings import load_settings
from app.storage.database_errors import DATABASE_AWAY
from app.storage.session import Database
from app.studies import queue, repository
from app.studies.kinds import KINDS
from app.studies.queue import Lease, LeaseLostError
from app.studies.work import Kind, Outcome, StoredStudy, Work, checkpoint_of
from cost_models.shapes.workload import WorkloadError
from documents.errors import InputError
from documents.sentences import Sentence
from meshplan import __version__
from search.heartbeat import heartbeats_to
from search.session.progress import EXPLAIN, UNFINISHED, Progress, while_explaining
from search.session.runner import run_to_end

UNUSABLE_INPUT = (InputError, WorkloadError)

log = structlog.get_logger()


class StudyRun:
    """An attempt at a study. It calls ``should_stop`` after every step; if that is true, the study returns to the queue."""

    def __init__(self, database: Database, lease: Lease, *, checkpoint_s: float, should_stop: Callable[[], bool]) -> None:
        self._database = database
        self._lease = lease
        self._checkpoint_s = checkpoint_s
        self._should_stop = should_stop
        self._num_saved = 0
        self._saved_s = float("-inf")  # the first step is saved at once, as a sign of progress
        self._is_released = False

    def run(self) -> str:
        """Run the study; return its final state, or ``queued``.

        Raises ``LeaseLostError`` if another worker has the study, and ``DATABASE_AWAY`` if the result cannot be saved.
        """
        try:
            return self._run()
        except (LeaseLostError, *DATABASE_AWAY):
            raise
        except UNUSABLE_INPUT as error:
            return self._fail(Sentence("{}.", str(error).rstrip(".")))
        except Exception as error:
            log.exception("study failed", study=self._lease.study_id)
            return self._fail(Sentence("Internal error: {}: {}", type(error).__name__, error))

    def _run(self) -> str:
        kind, study = self._load()
        if not study.is_of_this_version:
            log.info("study starts over: its checkpoint is of another version", study=study.id)
            with self._database.write() as session:
                queue.start_over(session, self._lease)
            kind, study = self._load()
        work = kind.continued(study)
        self._num_saved = len(study.records)
        stopped_by = "interrupt" if self._is_cancelled() else self._advance(kind, work)
        if self._is_released:
            return "queued"
        state = "cancelled" if stopped_by == "interrupt" else "completed"
        with heartbeats_to(self._explaining(work)):
            outcome = work.outcome(state, stopped_by)
        progress = replace(work.progress, done_fraction=1.0) if stopped_by is None else work.progress
        write = self._writing(kind, work, progress)
        with self._database.write() as session:
            write(session)
            queue.finish(session, self._lease, __version__, outcome)
        return state

    def _explaining(self, work: Work) -> Callable[[], None]:
        """Report about once a second that results are being explained. The checkpoint of the last step remains."""
        begun_s, num_beats = time.monotonic(), 0

        def tell() -> None:
            nonlocal num_beats
            num_beats += 1
            if time.monotonic() - self._saved_s < self._checkpoint_s:
                return
            progress = while_explaining(work.progress, num_beats)
            progress = replace(progress, elapsed_s=progress.elapsed_s + time.monotonic() - begun_s)
            with self._database.write() as session:
                queue.tell(session, self._lease, asdict(progress))
            self._saved_s = time.monotonic()

        return tell

    def _load(self) -> tuple[Kind, StoredStudy]:
        with self._database.read() as session:
            study = repository.find_study(session, self._lease.study_id)
            if study is None:
                raise LeaseLostError(self._lease.study_id)
            kind = KINDS[study.kind]
            inputs = {
                name: getattr(study, name) for name in ("id", "job", "hardware_profile", "space", "calibration", "checkpoint")
            }
            records = () if kind.table is None else repository.all_records(session, kind.table, study.id)
            return kind, StoredStudy(**inputs, records=tuple(records))

    def _is_cancelled(self) -> bool:
        with self._database.read() as session:
            return queue.is_cancel_requested(session, self._lease)

    def _advance(self, kind: Kind, work: Work) -> str | None:
        def after_step(progress: Progress) -> bool:
            if progress.phase == EXPLAIN:
                return True  # the search is complete, so a worker that must stop can still answer
            if self._is_cancelled():
                return False
            if self._should_stop():
                self._save(kind, work, release=True)
                return False
            if time.monotonic() - self._saved_s >= self._checkpoint_s:
                self._save(kind, work)
            return True

        return run_to_end(work, work.time_limit_s, after_step, memory_limit_bytes=load_settings().search_bytes)

    def _save(self, kind: Kind, work: Work, *, release: bool = False) -> None:
        progress = work.progress
        progress = replace(progress, done_fraction=min(progress.done_fraction, UNFINISHED))
        write = self._writing(kind, work, progress)
        with self._database.write() as session:
            write(session)
            if release:
                queue.release(session, self._lease)
        self._num_saved = work.num_records
        self._is_released = release
        self._saved_s = time.monotonic()

    def _writing(self, kind: Kind, work: Work, progress: Progress) -> Callable[[Session], None]:
        """What saves progress and checkpoint, with the records since the last ones.

        They are made here, before the transaction: on SQLite all other writers wait for it.
        """
        saved = asdict(progress), checkpoint_of(work), work.records(self._num_saved), kind.table
        return lambda session: queue.save(session, self._lease, *saved)

    def _fail(self, reason: str) -> str:
        """Mark the study as failed; it can be resumed from its checkpoint."""
        with self._database.write() as session:
            queue.finish(session, self._lease, __version__, Outcome("failed", error=reason))
        return "failed"

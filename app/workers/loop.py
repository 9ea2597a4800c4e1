"""What a worker does all day."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.storage.session import Database
from app.studies import service
from app.studies.runner import DATABASE_AWAY, StudyRun
from app.workers import queue
from app.workers.process import HEARTBEATS_A_LEASE, KEEP_ANSWERS_S, POLL_S, PURGE_S, RETRY_S, WorkerOptions
from app.workers.queue import Lease, LeaseLostError

log = structlog.get_logger()


def work(options: WorkerOptions, stop: threading.Event) -> None:
    """Runs studies until ``stop`` is set."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    purge_due_s = time.monotonic() + PURGE_S
    with Database(options.url) as database:
        while not stop.is_set():
            try:
                if not _run_next(database, owner, options, stop):
                    stop.wait(POLL_S)
                if time.monotonic() >= purge_due_s:
                    purge_due_s = time.monotonic() + PURGE_S
                    with database.write() as session:
                        service.purge_idempotent(session, KEEP_ANSWERS_S)
            except DATABASE_AWAY as error:
                log.warning("database is away", reason=str(error.orig))
                stop.wait(RETRY_S)


def _run_next(database: Database, owner: str, options: WorkerOptions, stop: threading.Event) -> bool:
    """Whether there was a study to run."""
    with database.write() as session:
        lease = queue.claim(session, owner, options.lease_s)
    if lease is None:
        return False
    bound = log.bind(study=lease.study_id, attempt=lease.token)
    bound.info("study claimed")
    with _heartbeat(database, lease, options.lease_s):
        try:
            run = StudyRun(database, lease, checkpoint_s=options.checkpoint_s, should_stop=stop.is_set)
            bound.info("study left", state=run.run())
        except LeaseLostError:
            bound.warning("study lost: its lease ran out, or it was deleted")
    return True


@contextmanager
def _heartbeat(database: Database, lease: Lease, lease_s: float) -> Iterator[None]:
    """Renews the lease beside the work; a step of the search may take longer than the lease."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(lease_s / HEARTBEATS_A_LEASE):
            try:
                with database.write() as session:
                    queue.renew(session, lease, lease_s)
            except LeaseLostError:
                return  # the run finds out by itself, at its next look at the study
            except SQLAlchemyError as error:
                log.warning("lease not renewed", study=lease.study_id, reason=str(error))

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

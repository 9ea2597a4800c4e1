"""The loop of a worker."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.storage.database_errors import DATABASE_AWAY, cause
from app.storage.session import Database
from app.studies import queue
from app.studies.pruning import Retention, prune
from app.studies.queue import Lease, LeaseLostError
from app.studies.runner import StudyRun
from app.workers.options import WorkerOptions

POLL_S = 0.5  # seconds between two checks of an empty queue
RETRY_S = 2.0  # seconds before the next query to the database
HEARTBEATS_A_LEASE = 4
STATEMENT_S = 30.0  # the end of a study writes many rows, and no caller waits
PURGE_S = 3600.0

log = structlog.get_logger()


def work(options: WorkerOptions, stop: threading.Event) -> None:
    """Runs studies until ``stop`` is set."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    purge_due_s = time.monotonic() + PURGE_S
    with Database(options.url, statement_s=STATEMENT_S) as database:
        while not stop.is_set():
            try:
                if not _run_next(database, owner, options, stop):
                    stop.wait(POLL_S)
                if time.monotonic() >= purge_due_s:
                    purge_due_s = time.monotonic() + PURGE_S
                    prune(
                        database,
                        Retention(
                            options.keep_studies_days,
                            options.keep_audit_days,
                            checks_days=options.keep_checks_days,
                            runs_days=options.keep_runs_days,
                        ),
                    )
            except DATABASE_AWAY as error:
                log.warning("database is away", reason=cause(error))
                stop.wait(RETRY_S)


def _run_next(database: Database, owner: str, options: WorkerOptions, stop: threading.Event) -> bool:
    """Run the next study; return whether there was one."""
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
    """Renew the lease during the work, since a step of the search may take longer than the lease."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(lease_s / HEARTBEATS_A_LEASE):
            try:
                with database.write() as session:
                    queue.renew(session, lease, lease_s)
            except LeaseLostError:
                return  # the run notices at its next access to the study
            except SQLAlchemyError as error:
                log.warning("lease not renewed", study=lease.study_id, reason=cause(error))

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

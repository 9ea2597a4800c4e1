"""``meshplan worker``: runs queued studies."""

from __future__ import annotations

from typing import Annotated

import typer

from app.exit_codes import DONE
from app.text.lines import tell
from documents.errors import InputError
from documents.sentences import Sentence


def worker(
    workers: Annotated[
        int | None, typer.Option("--workers", help="processes that run studies (default 1, or MESHPLAN_WORKERS)")
    ] = None,
) -> int:
    """Runs queued studies, on this host or on several that share a PostgreSQL database, until it is stopped."""
    import signal
    import threading

    from app.logs import configure_logs
    from app.settings import load_settings
    from app.storage.session import Database
    from app.storage.upgrade import check_current
    from app.workers.supervisor import start_workers

    settings = load_settings(workers=workers)
    if settings.workers == 0:
        raise InputError(Sentence("--workers: 0 is not allowed, by flag or MESHPLAN_WORKERS; give an integer from 1 to 256."))
    configure_logs(settings.log_format)
    with Database(settings.url) as database:
        check_current(database)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stopped.set())
    who = Sentence("1 worker takes") if settings.workers == 1 else Sentence("{} workers take", settings.workers)
    tell(Sentence("{} studies from {}; Ctrl-C stops.", who, database.shown_url), err=True)
    with start_workers(settings.workers, settings.url, settings):
        stopped.wait()
    return DONE

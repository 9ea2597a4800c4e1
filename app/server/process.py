"""The server process: it runs the application on a socket until it receives a signal."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType

import uvicorn
from anyio import to_thread
from fastapi import FastAPI

from app.heap import return_freed_memory, trim
from app.http.addresses import NO_PROXIES, Proxies, parse_proxies
from app.http.keys import KeyLimits
from app.http.metrics import Processes
from app.http.state import ServerState
from app.logs import configure_logs
from app.server.application import create_app
from app.server.connections import ConnectionLimits, Connections, limits_of_this_process
from app.server.pricing import HEAVY_NICENESS, PricingInProcesses
from app.settings import PREFIX, Settings
from app.storage.session import Database
from app.workers.supervisor import start_workers

NOT_ACCEPTED = 65_535  # connections that may wait in the system, which bounds them itself (net.core.somaxconn)
# Connections accepted in one round of the event loop. They are counted a few rounds later, and cut there if there are too many:
# so many more must be open for a moment without using up the files that are kept free.
ACCEPTED_AT_ONCE = 16

# Requests that read the database at once. They and the event loop share the interpreter: with forty, others wait twice as long.
READING_THREADS = 4 + min(4, os.cpu_count() or 1)
# Seconds after which a thread leaves the interpreter to another that waits. The event loop waits after each system call; with
# Python's 5 ms, a caller's request beside reading threads waits several times that long.
SWITCH_INTERVAL_S = 0.0005
TRIM_EVERY_S = 5.0  # seconds after which free memory goes back to the system


class _Listener(socket.socket):
    """A socket with the longest queue of the system. asyncio accepts as many connections in one round as it wants to queue.

    Without a free file it would also fail as often in each round, and write a traceback each time.
    """

    def listen(self, backlog: int = NOT_ACCEPTED, /) -> None:
        super().listen(NOT_ACCEPTED)


class _Server(uvicorn.Server):
    """A server that ends open streams and waiting requests as soon as a signal arrives."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        to_thread.current_default_thread_limiter().total_tokens = READING_THREADS
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._state.stopping.set()
        super().handle_exit(sig, frame)


def server_config(app: FastAPI, limits: ConnectionLimits, grace_s: int, proxies: Proxies = NO_PROXIES) -> uvicorn.Config:
    """Settings of uvicorn."""
    return uvicorn.Config(
        app,
        http=Connections(limits, proxies).protocol,
        proxy_headers=False,  # uvicorn believes a forwarded address from loopback word for word
        ws="none",
        log_config=None,  # logging is configured already
        access_log=False,
        server_header=False,
        loop="asyncio",  # it accepts several newcomers in each round, uvloop one: a probe would wait for a flood before it
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=grace_s,
        timeout_keep_alive=round(limits.keep_alive_s),
    )


def run(database: Database, listener: socket.socket, settings: Settings, *, keys_required: bool, grace_s: int) -> None:
    """Serves, with workers, until SIGINT or SIGTERM; running studies go on from their checkpoint at the next start."""
    configure_logs(settings.log_format)
    return_freed_memory()
    proxies = parse_proxies(settings.trusted_proxies, f"{PREFIX}TRUSTED_PROXIES")
    pricing = PricingInProcesses(settings.url)
    app = create_app(
        database,
        keys_required=keys_required,
        pricing=pricing,
        limits=KeyLimits(settings.key_requests_a_minute, settings.key_max_unfinished, settings.key_max_stored),
        wrong_keys_a_minute=settings.wrong_keys_a_minute,
        keep_studies_days=settings.keep_studies_days,
        proxies=proxies,
    )
    config = server_config(app, limits_of_this_process(), grace_s, proxies)
    # uvicorn raises the signal again at its end; with these handlers the process survives it and stops its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    threading.Thread(target=_trim_often, daemon=True, name="trim").start()
    gc.collect()
    gc.freeze()  # loaded modules stay: garbage collections need not visit them
    with start_workers(settings.workers, settings.url, settings, niceness=HEAVY_NICENESS) as workers:
        metrics = app.state.server.metrics
        metrics.watch_workers(lambda: len(workers.pids), lambda: workers.num_restarts)
        metrics.watch_processes(
            lambda: [
                *(Processes(pool.name, pool.pids, pool.num_restarts, pool.num_waiting) for pool in pricing.pools),
                Processes("studies", workers.pids, workers.num_restarts, 0),
            ]
        )
        try:
            _Server(config, app.state.server).run(sockets=[_Listener(fileno=listener.detach())])
        finally:
            pricing.stop()
    database.close()


def _trim_often() -> None:
    while True:
        time.sleep(TRIM_EVERY_S)
        trim()

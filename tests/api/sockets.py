"""A server in this process on a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.server.application import create_app
from app.server.connections import ConnectionLimits
from app.server.process import server_config
from app.storage.session import Database

Address = tuple[str, int]


@contextmanager
def serving(database: Database, limits: ConnectionLimits | None = None, *, keys_required: bool = False) -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(database, keys_required=keys_required)
        server = uvicorn.Server(server_config(app, limits or ConnectionLimits(), grace_s=1))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            app.state.server.stopping.set()
            server.should_exit = True
            thread.join()

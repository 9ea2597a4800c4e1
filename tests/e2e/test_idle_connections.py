"""A burst of callers that ask nothing, beyond the limit of open files, as anybody may send without a key."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.servers import running_server

MAX_FILES, NUM_IDLE = 400, 2000


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * NUM_IDLE:
        pytest.skip("this process may not open so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * NUM_IDLE), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_the_server_answers_beside_a_burst_of_idle_connections(tmp_path: Path) -> None:
    """asyncio accepts as many connections in one round as its ``backlog`` says, and fails as often once no file is free."""
    with running_server(tmp_path, "--workers", "0", max_files=MAX_FILES) as server, ExitStack() as held:
        for _ in range(NUM_IDLE):
            caller = held.enter_context(socket.socket())
            caller.setblocking(False)
            with suppress(BlockingIOError):
                caller.connect(("127.0.0.1", server.port))
        assert httpx.get(f"{server.url}/healthz", timeout=30).is_success
        assert server.log().count("Traceback") < 100

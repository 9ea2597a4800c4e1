"""A server of this checkout with an empty data folder. It lives as long as the block that starts it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def server(workers: int = 0, max_files: int | None = None) -> Iterator[str]:
    """Start a server, wait until it is ready, and yield its address; ``max_files`` caps its open files."""

    def limited() -> None:
        if max_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "meshplan", "serve", "--port", "0", "--workers", str(workers)]
        environment = {**os.environ, "MESHPLAN_DATA_DIR": folder}
        environment.pop("MESHPLAN_DATABASE_URL", None)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=limited,
        )
        try:
            assert process.stdout is not None
            url = next(word for word in process.stdout.readline().split() if word.startswith("http://"))
            while True:
                try:
                    if httpx.get(f"{url}/readyz").is_success:
                        break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=20)

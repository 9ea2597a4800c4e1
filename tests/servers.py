"""Real servers: processes of their own on a free port, over a database in a temporary folder."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 60.0


class Server:
    """One ``meshplan serve``. It can be killed and started again over the same database, on the same port."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        max_memory_bytes: int | None = None,
        max_files: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.options, self.settings = folder, options, settings or {}
        self.limits = {resource.RLIMIT_AS: max_memory_bytes, resource.RLIMIT_NOFILE: max_files}
        self.port, self.url = 0, ""
        self.greeting = ""
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MESHPLAN_")}
        return {**kept, "MESHPLAN_DATA_DIR": str(self.folder), "OMP_NUM_THREADS": "1", **self.settings}

    def start(self) -> None:
        command = [sys.executable, "-m", "meshplan", "serve", "--port", str(self.port), *self.options]
        with (self.folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=self._limit if any(self.limits.values()) else None,
            )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        assert "http://" in first, first + self.log()
        self.greeting = first
        self.url = next(word for word in first.split() if word.startswith("http://"))
        self.port = int(self.url.rpartition(":")[2])
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline_s, self.log()
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._end()

    def stop(self) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        return self._end()

    def read_lines(self, count: int) -> list[str]:
        """The next lines that it prints."""
        assert self._process is not None
        assert self._process.stdout is not None
        return [self._process.stdout.readline() for _ in range(count)]

    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def _end(self) -> int:
        assert self._process is not None
        code = self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def _limit(self) -> None:
        for kind, most in self.limits.items():
            if most is not None:
                resource.setrlimit(kind, (most, most))


@contextmanager
def running_server(
    folder: Path,
    *options: str,
    max_memory_bytes: int | None = None,
    max_files: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    server = Server(folder, *options, max_memory_bytes=max_memory_bytes, max_files=max_files, settings=settings)
    try:
        yield server
    finally:
        server.stop()

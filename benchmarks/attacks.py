"""What a server withstands: headers without end, half-open requests, idle event streams, bodies of millions of values."""

from __future__ import annotations

import resource
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import psutil

from benchmarks.rest import JOB as MANY_JOB
from benchmarks.rest import server, strategies

MAX_RSS_MB = 300
MAX_SLOWDOWN = 3
NUM_HEADERS, NUM_HALF_OPEN, NUM_STREAMS, NUM_BODIES = 400, 1200, 1000, 6
NUM_BATCH_CLIENTS, NUM_BATCHED = 4, 2000
JOB = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
JSON = {"Content-Type": "application/json"}


class Target:
    """The server under attack; the most memory that it held is watched all the time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._process = next(child for child in psutil.Process().children() if any("serve" in part for part in child.cmdline()))
        self.peak_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with suppress(psutil.NoSuchProcess):
            while True:
                self.peak_mb = max(self.peak_mb, self._process.memory_info().rss / 2**20)
                time.sleep(0.05)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def health_s(self) -> float:
        began_s = time.perf_counter()
        httpx.get(f"{self.url}/healthz", timeout=60).raise_for_status()
        return time.perf_counter() - began_s

    def estimate_s(self, repeats: int = 20) -> float:
        """Median, each of another job: what was asked before is answered from memory."""
        times = []
        with httpx.Client(base_url=self.url, timeout=120) as client:
            for number in range(repeats):
                training = {"global_batch_size": 64 + 8 * int(1000 * time.time() % 10_000), "seq_length": 4096 + 8 * number}
                began_s = time.perf_counter()
                client.post("/v1/estimates", json={**JOB, "training": training, "strategy": {"tp": 8}}).raise_for_status()
                times.append(time.perf_counter() - began_s)
        return statistics.median(times)


def long_headers(target: Target) -> None:
    def send(_: int) -> None:
        with suppress(OSError), target.connect() as caller:
            caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Much: " + b"x" * 2**20)
            caller.recv(100)

    in_parallel(send, NUM_HEADERS, 50)


@contextmanager
def half_open(target: Target) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(NUM_HALF_OPEN):
            with suppress(OSError):
                caller = stack.enter_context(target.connect())
                caller.sendall(b"GET /healthz HTTP/1.1\r\n")
        yield


@contextmanager
def idle_streams(target: Target) -> Iterator[None]:
    study = httpx.post(f"{target.url}/v1/studies", json=JOB, timeout=60).json()["id"]
    with ExitStack() as stack:
        for _ in range(NUM_STREAMS):
            caller = stack.enter_context(target.connect())
            caller.sendall(f"GET /v1/studies/{study}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(10)
        yield


def large_bodies(target: Target) -> list[int]:
    body = b'{"strategies": [' + b",".join([b"{}"] * 5_500_000) + b"]}"
    spent = b'{"strategies": [' + b",".join([b'{"tp":8}'] * 190_000) + b"]}"
    answers: list[int] = []

    def send(number: int) -> None:
        content = body if number < NUM_BODIES else spent
        answers.append(httpx.post(f"{target.url}/v1/estimates", content=content, headers=JSON, timeout=120).status_code)

    in_parallel(send, 2 * NUM_BODIES, 2 * NUM_BODIES)
    return answers


@contextmanager
def batch_clients(target: Target) -> Iterator[None]:
    """Clients that send lists of strategies without a pause."""
    body = {**MANY_JOB, "strategies": strategies(NUM_BATCHED)}
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=target.url, timeout=600) as client:
            while not done.is_set():
                client.post("/v1/estimates", json=body).raise_for_status()

    callers = [threading.Thread(target=ask) for _ in range(NUM_BATCH_CLIENTS)]
    for caller in callers:
        caller.start()
    time.sleep(5)
    try:
        yield
    finally:
        done.set()
        for caller in callers:
            caller.join()


def in_parallel(call: Callable[[int], None], count: int, at_once: int) -> None:
    turns = threading.Semaphore(at_once)

    def run(number: int) -> None:
        with turns:
            call(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    rows: list[tuple[str, str, bool]] = []
    with server() as url:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        target = Target(url)
        alone_s = target.estimate_s()
        before_mb = target.peak_mb
        long_headers(target)
        rows.append(
            (f"{NUM_HEADERS} headers of 1 MiB", f"{before_mb:.0f} -> {target.peak_mb:.0f} MB", target.peak_mb < MAX_RSS_MB)
        )
        with idle_streams(target):
            slowed = target.estimate_s() / alone_s
            rows.append(
                (f"{NUM_STREAMS} idle event streams", f"an estimate takes {slowed:.1f} times as long", slowed < MAX_SLOWDOWN)
            )
            rows.append(("", f"/healthz {target.health_s() * 1e3:.0f} ms", True))
        time.sleep(5)  # its readers have left
        with batch_clients(target):
            slowed = target.estimate_s() / alone_s
            rows.append(
                (
                    f"{NUM_BATCH_CLIENTS} clients of batches",
                    f"an estimate takes {slowed:.1f} times as long",
                    slowed < MAX_SLOWDOWN,
                )
            )
        with half_open(target):
            rows.append((f"{NUM_HALF_OPEN} half-open requests", f"/healthz {target.health_s() * 1e3:.0f} ms", True))
        longest_s = [0.0]
        done = threading.Event()

        def ask() -> None:
            while not done.wait(0.1):
                longest_s[0] = max(longest_s[0], target.health_s())

        asking = threading.Thread(target=ask)
        asking.start()
        answers = large_bodies(target)
        done.set()
        asking.join()
        said = f"{before_mb:.0f} -> {target.peak_mb:.0f} MB, answers {sorted(set(answers))}"
        said += f", /healthz {longest_s[0] * 1e3:.0f} ms at most"
        rows.append((f"{2 * NUM_BODIES} bodies of 11 and 1.6 MiB at once", said, target.peak_mb < MAX_RSS_MB))
    for name, value, is_fine in rows:
        print(f"{name:<40} {value:<70} {'' if is_fine else 'TOO MUCH'}")
    return 0 if all(is_fine for *_, is_fine in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

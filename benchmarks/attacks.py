"""Attacks that a server must withstand: endless headers, half-open requests, idle event streams, bodies of millions of values.

``python -m benchmarks.attacks streams batches`` runs only these two; each has a server of its own.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import NamedTuple

import httpx
import psutil

from app.server.connections import ConnectionLimits
from benchmarks.rest import JOB as MANY_JOB
from benchmarks.rest import strategies
from scripts.dashboard.server import server

MAX_RSS_MB = 300
MAX_SLOWDOWN = 3
MAX_FILES = 1024  # open-file limit of the server that half-open requests attack
MAX_CLOSED_S = ConnectionLimits().header_s + 5.0  # half-open requests were answered, given time to read, and cut
NUM_HEADERS, NUM_HALF_OPEN, NUM_STREAMS, NUM_BODIES = 400, 1200, 1000, 6
NUM_BATCH_CLIENTS, NUM_BATCHED = 4, 2000
JOB = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
JSON = {"Content-Type": "application/json"}


class Target:
    """The server under attack; its peak memory is measured all the time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._process = next(child for child in psutil.Process().children() if any("serve" in part for part in child.cmdline()))
        self.peak_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with suppress(psutil.NoSuchProcess):
            while True:
                self.peak_mb = max(self.peak_mb, self.resident_mb())
                time.sleep(0.05)

    def resident_mb(self) -> float:
        return float(self._process.memory_info().rss) / 2**20

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def health_s(self) -> float:
        began_s = time.perf_counter()
        httpx.get(f"{self.url}/healthz", timeout=60).raise_for_status()
        return time.perf_counter() - began_s

    def estimate_s(self, repeats: int = 20) -> float:
        """Median time of an estimate, each of another job, since repeated questions are answered from memory."""
        times: list[float] = []
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


class Row(NamedTuple):
    """A measurement, and whether it is within its limit."""

    name: str
    seen: str
    is_fine: bool


def _headers(target: Target) -> Iterator[Row]:
    before_mb = target.resident_mb()
    long_headers(target)
    seen = f"{before_mb:.0f} -> {target.peak_mb:.0f} MB"
    yield Row(f"{NUM_HEADERS} headers of 1 MiB", seen, target.peak_mb < MAX_RSS_MB)


def _slowed(target: Target, name: str, load: Callable[[Target], AbstractContextManager[None]]) -> Iterator[Row]:
    target.estimate_s(4)  # its processes have started by then
    alone_s = target.estimate_s()
    with load(target):
        beside_s, health_s = target.estimate_s(), target.health_s()
    slowed = beside_s / alone_s
    seen = f"an estimate takes {slowed:.1f} times as long ({beside_s * 1e3:.0f} ms), /healthz {health_s * 1e3:.0f} ms"
    yield Row(name, seen, slowed < MAX_SLOWDOWN)


def _half_open(target: Target) -> Iterator[Row]:
    with ExitStack() as stack:
        held = []
        for _ in range(NUM_HALF_OPEN):
            with suppress(OSError):
                caller = stack.enter_context(target.connect())
                held.append(caller)
                caller.sendall(b"GET /healthz HTTP/1.1\r\n")
        sent_s, health_s = time.monotonic(), target.health_s()
        closed_s = closed(held) - sent_s
    seen = f"{len(held)} held, /healthz {health_s * 1e3:.0f} ms, all closed after {closed_s:.0f} s"
    yield Row(f"{NUM_HALF_OPEN} half-open requests, {MAX_FILES} files", seen, closed_s < MAX_CLOSED_S)


def closed(callers: list[socket.socket]) -> float:
    """Seconds until the server has closed the last connection."""
    waiting = select.poll()
    by_number = {caller.fileno(): caller for caller in callers}
    for number in by_number:
        waiting.register(number, select.POLLIN)
    while by_number:
        for number, _ in waiting.poll():
            try:
                is_open = bool(by_number[number].recv(65536))
            except OSError:
                is_open = False
            if not is_open:
                waiting.unregister(number)
                del by_number[number]
    return time.monotonic()


def _bodies(target: Target) -> Iterator[Row]:
    longest_s, before_mb = [0.0], target.resident_mb()
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.1):
            longest_s[0] = max(longest_s[0], target.health_s())

    asking = threading.Thread(target=ask)
    asking.start()
    answers = large_bodies(target)
    done.set()
    asking.join()
    seen = f"{before_mb:.0f} -> {target.peak_mb:.0f} MB, answers {sorted(set(answers))}"
    seen += f", /healthz {longest_s[0] * 1e3:.0f} ms at most"
    yield Row(f"{2 * NUM_BODIES} bodies of 11 and 1.6 MiB at once", seen, target.peak_mb < MAX_RSS_MB)


ATTACKS: dict[str, Callable[[Target], Iterator[Row]]] = {
    "headers": _headers,
    "streams": lambda target: _slowed(target, f"{NUM_STREAMS} idle event streams", idle_streams),
    "batches": lambda target: _slowed(target, f"{NUM_BATCH_CLIENTS} clients of batches", batch_clients),
    "half-open": _half_open,
    "bodies": _bodies,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    told = f"of {', '.join(ATTACKS)}; all unless given"
    parser.add_argument("attacks", nargs="*", choices=[*ATTACKS, []], default=[], metavar="ATTACK", help=told)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    went_well = True
    for name in parser.parse_args().attacks or ATTACKS:
        with server(max_files=MAX_FILES if name == "half-open" else None) as url:
            for row in ATTACKS[name](Target(url)):
                print(f"{row.name:<40} {row.seen:<80} {'' if row.is_fine else 'TOO MUCH'}", flush=True)
                went_well &= row.is_fine
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(main())

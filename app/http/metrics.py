"""Metrics of the server, in Prometheus' text format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
# Counts of `app.studies.service.figures` in the database, so that every server reports the same.
_HELP = {
    "queue_age_seconds": "How long the study that has waited longest waits.",
    "queue_owners": "Owners whose studies wait.",
    "leases": "Studies whose worker gives signs of life.",
    "overdue_leases": "Running studies whose worker is silent.",
    "attempts_without_progress": "Most deaths in a row of the workers of one running study.",
    "running_attempts": "How often workers took up the studies that run.",
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Processes(NamedTuple):
    """Child processes of the server that answer a class of requests or run studies."""

    name: str
    pids: Sequence[int]
    num_restarts: int
    num_waiting: int  # requests


class Metrics:
    """Counters of one server; studies are counted in the database on request."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._workers: tuple[Callable[[], int], Callable[[], int]] = (lambda: 0, lambda: 0)
        self._processes: Callable[[], Sequence[Processes]] = tuple
        ProcessCollector(registry=self._registry)  # memory, files and processor time of the server's own process
        labels = ("method", "route", "status")
        self._requests = Counter("meshplan_http_requests", "Requests answered.", labels, registry=self._registry)
        self._durations = Histogram(
            "meshplan_http_request_duration_seconds",
            "Time to answer.",
            labels[:2],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._limited = Counter(
            "meshplan_limited_requests",
            "Requests refused with 429, by what there was too much of.",
            ("reason",),
            registry=self._registry,
        )

    def request(self, method: str, route: str, status: int, duration_s: float) -> None:
        method = method if method in _METHODS else "other"  # labels must not come from callers
        self._requests.labels(method, route, status).inc()
        self._durations.labels(method, route).observe(duration_s)

    def limited(self, reason: str) -> None:
        self._limited.labels(reason).inc()

    def watch_workers(self, count: Callable[[], int], restarts: Callable[[], int]) -> None:
        """Watch the worker processes of this server."""
        self._workers = (count, restarts)

    def watch_processes(self, processes: Callable[[], Sequence[Processes]]) -> None:
        """Watch the child processes of the server, by class."""
        self._processes = processes

    def text_of_owner(self, studies_by_state: Mapping[str, int]) -> bytes:
        """The studies of one owner alone: requests and processes tell of others."""
        return _text([_studies(studies_by_state)])

    def text(self, studies_by_state: Mapping[str, int], figures: Mapping[str, float]) -> bytes:
        """Everything that the server counts."""
        gauges = [GaugeMetricFamily(f"meshplan_{name}", _HELP[name], value) for name, value in figures.items()]
        count, restarts = self._workers
        gauges.append(GaugeMetricFamily("meshplan_workers", "Worker processes of this server.", count()))
        died = CounterMetricFamily(
            "meshplan_worker_restarts", "Workers of this server that died and were started again.", restarts()
        )
        families = [_studies(studies_by_state), *gauges, died, *_of_processes(self._processes())]
        return generate_latest(self._registry) + _text(families)


def _text(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collected(families))
    return generate_latest(registry)


def _studies(by_state: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily("meshplan_studies", "Studies in the database.", labels=("state",))
    for state, number in by_state.items():
        gauge.add_metric([state], number)
    return gauge


def _of_processes(classes: Sequence[Processes]) -> list[Metric]:
    label = ("class",)
    running = GaugeMetricFamily("meshplan_processes", "Processes beside the server's own.", labels=label)
    resident = GaugeMetricFamily("meshplan_processes_resident_bytes", "Memory that they hold together.", labels=label)
    waiting = GaugeMetricFamily("meshplan_waiting_requests", "Requests that wait for one of them.", labels=label)
    died = CounterMetricFamily("meshplan_process_restarts", "Those that died and were started again.", labels=label)
    for one in classes:
        running.add_metric([one.name], len(one.pids))
        resident.add_metric([one.name], sum(map(_resident_bytes, one.pids)))
        waiting.add_metric([one.name], one.num_waiting)
        died.add_metric([one.name], one.num_restarts)
    return [running, resident, waiting, died]


def _resident_bytes(pid: int) -> int:
    """Resident memory; 0 if the process has just ended, or the system is not Linux."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


class _Collected:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

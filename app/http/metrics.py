"""What the server counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Metrics:
    """Counters of one server; the studies are counted where they are asked for, in the database."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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
        method = method if method in _METHODS else "other"  # a stranger's words must not become labels
        self._requests.labels(method, route, status).inc()
        self._durations.labels(method, route).observe(duration_s)

    def limited(self, reason: str) -> None:
        self._limited.labels(reason).inc()

    def text(self, studies_by_state: Mapping[str, int]) -> bytes:
        gauge = GaugeMetricFamily("meshplan_studies", "Studies in the database.", labels=("state",))
        for state, number in studies_by_state.items():
            gauge.add_metric([state], number)
        registry = CollectorRegistry()
        registry.register(_Collected([gauge]))
        return generate_latest(self._registry) + generate_latest(registry)


class _Collected:
    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families

"""Prometheus metrics. Names begin with `choir_`; labels are few and never contain user text.

Each service has one `Metrics`, made by its `app`. `http.service_app` counts requests with it and serves it.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: QUICK suits local requests (Unix socket), SLOW suits model calls.
FAST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
SLOW_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """The metrics of one process."""

    def __init__(self, service: str) -> None:
        """Create the registry with the process's own metrics (memory, CPU, files)."""
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.gauge("choir_service_info", "The service's name.", "service").labels(service).set(1)
        self._requests = self.counter(
            "choir_http_requests", "HTTP responses.", "method", "route", "status"
        )
        self._seconds = self.histogram(
            "choir_http_request_seconds", "Time to the response head.", FAST_BUCKETS, "route"
        )

    def counter(self, name: str, description: str, *labels: str) -> Counter:
        """Return a new counter; Prometheus appends `_total` to its name."""
        return Counter(name, description, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Return a new gauge."""
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        """Return a new histogram."""
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request; `route` is the route template, not the requested path."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

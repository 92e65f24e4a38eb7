"""Count what happens, for Prometheus: names begin with `choir_`, labels are few and never a person's words.

Each service has one `Metrics`, made by its `app`; `http.service_app` counts requests with it and serves it.
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
# seconds: from what a Unix socket takes to what a model takes
QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """One process's counters."""

    def __init__(self, service: str) -> None:
        """Start from nothing; the process's own figures (memory, CPU, files) are included."""
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.gauge("choir_service_info", "Which service this is.", "service").labels(service).set(1)
        self._requests = self.counter(
            "choir_http_requests", "HTTP requests answered.", "method", "route", "status"
        )
        self._seconds = self.histogram(
            "choir_http_request_seconds", "Time to the head of the answer.", QUICK, "route"
        )

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Return a new counter; `_total` is added to its name."""
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Return a new gauge."""
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        """Return a new histogram."""
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def note_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request; `route` is the template, not the path."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)

"""Span export over OTLP/HTTP. Imported by `tracing` only if a collector is configured."""

from collections.abc import Mapping
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracer, Tracer

TRACER_NAME = "choir"
TIMEOUT_S = 5
MAX_QUEUED_SPANS = 2_048  # spans; more are dropped while the collector is unavailable


class ChoirTracerProvider(TracerProvider):
    """Tracer provider that exports only spans made by Choir.

    Libraries that make spans put addresses and message texts into theirs.
    """

    def get_tracer(self, instrumenting_module_name: str, *more: Any, **options: Any) -> Tracer:
        """Return a tracer; libraries other than Choir get one that does nothing."""
        if instrumenting_module_name != TRACER_NAME:
            return NoOpTracer()
        return super().get_tracer(instrumenting_module_name, *more, **options)


def install_exporter(
    service: str, endpoint: str, about: Mapping[str, str], proxy_url: str | None
) -> TracerProvider:
    """Start to export this process's spans; shutting the provider down flushes them."""
    provider = ChoirTracerProvider(resource=Resource({"service.name": service, **about}))
    session = (
        requests.Session()
    )  # the exporter's own HTTP client; it has no other option for a proxy
    if proxy_url:
        session.proxies = dict.fromkeys(("http", "https"), proxy_url)
    exporter = OTLPSpanExporter(
        endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT_S, session=session
    )
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MAX_QUEUED_SPANS))
    trace.set_tracer_provider(provider)
    return provider

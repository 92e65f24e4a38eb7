"""Export spans over OTLP/HTTP. Loaded late, by `tracing`, and only where a collector is configured."""

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracer, Tracer

OURS = "choir"
TIMEOUT_S = 5
QUEUE = 2_048  # spans; when the collector is away, further ones are dropped


class OurSpans(TracerProvider):
    """Spans of our own making alone: libraries that make some put addresses and texts into theirs."""

    def get_tracer(self, instrumenting_module_name: str, *more: Any, **named: Any) -> Tracer:
        """Return a tracer; one that does nothing to everybody else."""
        if instrumenting_module_name != OURS:
            return NoOpTracer()
        return super().get_tracer(instrumenting_module_name, *more, **named)


def install(service: str, endpoint: str, about: Mapping[str, str]) -> Callable[[], None]:
    """Begin to export this process's spans; return what flushes and ends it."""
    provider = OurSpans(resource=Resource({"service.name": service, **about}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE))
    trace.set_tracer_provider(provider)
    return provider.shutdown

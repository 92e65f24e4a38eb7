"""Spans across HTTP and the bus, linked by W3C `traceparent` headers. Used by `http.service_app` and `bus`.

A span names a route or a subject and how it ended: never an address, a text or an error's words, so there is
nothing to redact. Without a collector every call here does next to nothing; the SDK is loaded only with one.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# the SDK and its exporter take 20 MB that a process without a collector does not need
_EXPORT = "choir_common.tracing_export"

Close = Callable[[], None]


@contextlib.contextmanager
def exporting(service: str, endpoint: str | None) -> Iterator[None]:
    """Send this process's spans to the collector at `endpoint` (OTLP over HTTP), if there is one.

    The last ones are sent at the end of the block, which may take some seconds.
    """
    if not endpoint:
        yield
        return
    close = cast(Close, importlib.import_module(_EXPORT).install(service, endpoint))
    try:
        yield
    finally:
        close()


@contextlib.contextmanager
def calling(name: str, system: str) -> Iterator[dict[str, str]]:
    """Span a request to another service; yield the headers to send with it."""
    with _span(name, SpanKind.CLIENT, system, None):
        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers)
        yield headers


@contextlib.contextmanager
def answering(name: str, system: str, headers: Mapping[str, str]) -> Iterator[Span]:
    """Span the answer to a request that came with `headers`."""
    with _span(name, SpanKind.SERVER, system, headers) as span:
        yield span


@contextlib.contextmanager
def _span(
    name: str, kind: SpanKind, system: str, headers: Mapping[str, str] | None
) -> Iterator[Span]:
    parent = TraceContextTextMapPropagator().extract(headers) if headers else None
    with trace.get_tracer("choir").start_as_current_span(
        name,
        context=parent,
        kind=kind,
        attributes={"rpc.system": system},
        record_exception=False,  # its words may be a person's
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def _nothing() -> None:
    """Close nothing."""

"""Spans across HTTP, NATS and the agent's work, linked by W3C `traceparent`. Used by all services.

A span names a route, a subject, a model or a tool, and its result. It never contains an address, user text
or an error message, so there is nothing to redact. Without a collector each call here is nearly free: the
SDK is imported only when a collector is configured.
"""

import contextlib
from collections.abc import Iterator, Mapping

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
Attributes = Mapping[str, str | int | float | tuple[str, ...]]


@contextlib.contextmanager
def export_spans(
    service: str,
    endpoint: str | None,
    about: Mapping[str, str] | None = None,
    *,
    proxy_url: str | None = None,
) -> Iterator[None]:
    """Export this process's spans to the collector at `endpoint` (OTLP over HTTP), if it is set.

    `about` is added to every span as resource attributes. `proxy_url` is the way to the collector, if it is
    not direct. The last spans are flushed at the end of the
    block, which may take some seconds.
    """
    if not endpoint:
        yield
        return
    from choir_common.tracing_export import (  # noqa: PLC0415 - 20 MB that only a collector is worth
        install_exporter,
    )

    provider = install_exporter(service, endpoint, about or {}, proxy_url)
    try:
        yield
    finally:
        provider.shutdown()


def is_export_enabled() -> bool:
    """Return whether this process exports spans."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


@contextlib.contextmanager
def client_span(name: str, system: str) -> Iterator[dict[str, str]]:
    """Trace a request to another service; yield the headers to send with it."""
    with _span(name, SpanKind.CLIENT, {"rpc.system": system}, None):
        yield trace_headers()


@contextlib.contextmanager
def server_span(name: str, system: str, headers: Mapping[str, str]) -> Iterator[Span]:
    """Trace the handling of a request that came with `headers`."""
    with _span(name, SpanKind.SERVER, {"rpc.system": system}, headers) as span:
        yield span


@contextlib.contextmanager
def work_span(
    name: str,
    attributes: Attributes,
    *,
    parent: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """Trace a unit of work, as a child of `parent` (a traceparent) or of the current span."""
    with _span(name, kind, attributes, {TRACEPARENT: parent} if parent else None) as span:
        yield span


@contextlib.contextmanager
def use_parent_span(parent: str | None) -> Iterator[None]:
    """Make spans inside the block children of the span that `parent` (a traceparent) names."""
    if not parent:
        yield
        return
    context = TraceContextTextMapPropagator().extract({TRACEPARENT: parent})
    with trace.use_span(trace.get_current_span(context), record_exception=False):
        yield


def trace_headers() -> dict[str, str]:
    """Return the headers that propagate the current trace; empty outside a trace."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def current_traceparent() -> str | None:
    """Return the current span as a traceparent string, which may be stored; None outside a trace."""
    return trace_headers().get(TRACEPARENT)


def mark_failed(span: Span, kind: str) -> None:
    """Mark a span as failed; `kind` is one of a small set of names, never a message."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


@contextlib.contextmanager
def _span(
    name: str, kind: SpanKind, attributes: Attributes, headers: Mapping[str, str] | None
) -> Iterator[Span]:
    if not is_export_enabled() and TRACEPARENT not in (headers or ()):
        yield trace.INVALID_SPAN  # no collector, and no trace to propagate
        return
    parent = TraceContextTextMapPropagator().extract(headers) if headers else None
    with trace.get_tracer("choir").start_as_current_span(
        name,
        context=parent,
        kind=kind,
        attributes=attributes,
        record_exception=False,  # the error text may contain user text
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            mark_failed(span, type(error).__name__)
            raise

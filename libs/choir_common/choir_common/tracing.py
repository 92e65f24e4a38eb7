"""Spans across HTTP, the bus and an agent's work, linked by W3C `traceparent`. Used by all services.

A span names a route, a subject, a model or a tool, and how it ended: never an address, a text or an error's
words, so there is nothing to redact. Without a collector every call here does next to nothing; the SDK is
loaded only with one.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# the SDK and its exporter take 20 MB that a process without a collector does not need
_EXPORT = "choir_common.tracing_export"

TRACEPARENT = "traceparent"
Close = Callable[[], None]
Attributes = Mapping[str, str | int | float | tuple[str, ...]]


@contextlib.contextmanager
def exporting(
    service: str, endpoint: str | None, about: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Send this process's spans to the collector at `endpoint` (OTLP over HTTP), if there is one.

    `about` is told of the process with every span. The last ones are sent at the end of the block, which may
    take some seconds.
    """
    if not endpoint:
        yield
        return
    exporter = importlib.import_module(_EXPORT)
    close = cast(Close, exporter.install(service, endpoint, dict(about or {})))
    try:
        yield
    finally:
        close()


def is_exporting() -> bool:
    """Tell whether this process's spans go anywhere."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


@contextlib.contextmanager
def calling(name: str, system: str) -> Iterator[dict[str, str]]:
    """Span a request to another service; yield the headers to send with it."""
    with _span(name, SpanKind.CLIENT, {"rpc.system": system}, None):
        yield carried()


@contextlib.contextmanager
def answering(name: str, system: str, headers: Mapping[str, str]) -> Iterator[Span]:
    """Span the answer to a request that came with `headers`."""
    with _span(name, SpanKind.SERVER, {"rpc.system": system}, headers) as span:
        yield span


@contextlib.contextmanager
def working(
    name: str,
    attributes: Attributes,
    *,
    parent: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """Span a piece of work, below the span that `parent` (a traceparent) names or the current one."""
    with _span(name, kind, attributes, {TRACEPARENT: parent} if parent else None) as span:
        yield span


@contextlib.contextmanager
def continuing(parent: str | None) -> Iterator[None]:
    """Let what is spanned inside hang below the span that `parent` (a traceparent) names."""
    if not parent:
        yield
        return
    context = TraceContextTextMapPropagator().extract({TRACEPARENT: parent})
    with trace.use_span(trace.get_current_span(context), record_exception=False):
        yield


def carried() -> dict[str, str]:
    """Return the headers that make another process's spans part of the current trace; none outside one."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def traceparent() -> str | None:
    """Return the current span as text that may be stored."""
    return carried().get(TRACEPARENT)


def failed(span: Span, kind: str) -> None:
    """Say that what the span is about ended badly; `kind` is one of a few words, never a message."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


@contextlib.contextmanager
def _span(
    name: str, kind: SpanKind, attributes: Attributes, headers: Mapping[str, str] | None
) -> Iterator[Span]:
    parent = TraceContextTextMapPropagator().extract(headers) if headers else None
    if parent is None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield trace.INVALID_SPAN  # nobody collects, and there is nothing to pass on
        return
    with trace.get_tracer("choir").start_as_current_span(
        name,
        context=parent,
        kind=kind,
        attributes=attributes,
        record_exception=False,  # its words may be a person's
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            failed(span, type(error).__name__)
            raise

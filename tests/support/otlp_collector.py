"""An OTLP collector that stores the requests it receives and parses their spans."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Value = str | int | float | list["Value"]


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A received span; `said` contains its attributes and those of its process."""

    service: str
    name: str
    trace: str
    id: bytes
    parent: bytes
    kind: int
    failed: bool
    said: dict[str, Value]


class Collector(ThreadingHTTPServer):
    """HTTP server that receives OTLP traces."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, bytes]] = []
        self.changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def raw_bodies(self) -> bytes:
        """Return the bodies of all requests, concatenated."""
        return b"".join(body for _, body in self.requests)

    def spans(self) -> list[ReceivedSpan]:
        """Return all spans received so far."""
        return [span for _, body in list(self.requests) for span in _read(body)]

    def wait_for(
        self, holds: Callable[[list[ReceivedSpan]], bool], timeout_s: float
    ) -> list[ReceivedSpan]:
        """Wait until `holds` is true for the spans and return them; fail with their names on
        timeout."""
        until = time.monotonic() + timeout_s
        with self.changed:
            while not holds(spans := self.spans()):
                if not self.changed.wait(until - time.monotonic()):
                    raise AssertionError(sorted({f"{s.service}: {s.name}" for s in spans}))
        return spans


@contextlib.contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            raise AssertionError("no compression was asked for")
        assert isinstance(self.server, Collector)
        with self.server.changed:
            self.server.requests.append((self.path, body))
            self.server.changed.notify_all()
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
        return


def _read(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        process = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                own = {pair.key: _value(pair.value) for pair in span.attributes}
                yield ReceivedSpan(
                    service=str(process["service.name"]),
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id,
                    parent=span.parent_span_id,
                    kind=span.kind,
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    said={**process, **own},
                )


def _value(value: AnyValue) -> Value:
    match value.WhichOneof("value"):
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case _:
            return value.string_value

"""Spans of a request through HTTP and over the bus, as a real OTLP collector receives them."""

import subprocess
import sys

import pytest

from choir_common.settings import ServiceSettings
from choir_local.nats import EmbeddedNats
from tests.service.memory.servers import nats
from tests.support.bus import BUS_KEY
from tests.support.otlp_collector import running_collector

__all__ = ["nats"]

ONE_SERVICE = """
import asyncio, sys
import httpx2
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import NotFound
from choir_common.http.service_app import make_service_app
from choir_common.tracing import export_spans
from choir_common.wire.messages import Empty

async def answer(request):
    return Empty()

async def refuse(request):
    raise NotFound("a very private reason")

class Readiness:
    async def check(self):
        return []

async def main(url, token):
    app = make_service_app("t", "1", Readiness())
    async with Bus(url, token, "t") as bus, bus.serve(
        "t", "0.0.1", Endpoint("choir.t.good", Empty, answer), Endpoint("choir.t.bad", Empty, refuse)
    ):
        @app.get("/things/{name}")
        async def things(name: str):
            await bus.request("choir.t.good", Empty(), Empty, 5)
            await bus.request("choir.t.bad", Empty(), Empty, 5)

        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://t") as client:
            answer_ = await client.get(
                "/things/very-private",
                headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
            )
            assert answer_.status_code == 404, answer_.text

with export_spans("choir-test", sys.argv[3] or None):
    asyncio.run(main(sys.argv[1], sys.argv[2]))
print("sdk" if "opentelemetry.sdk.trace" in sys.modules else "no sdk")
"""


def run_service(server: EmbeddedNats, endpoint: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ONE_SERVICE, server.url, BUS_KEY, endpoint],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_a_request_is_one_trace_over_http_and_the_bus(nats: EmbeddedNats) -> None:
    with running_collector() as collector:
        assert run_service(nats, collector.url) == "sdk"
        assert {path for path, _ in collector.requests} == {"/v1/traces"}
        told, spans = collector.raw_bodies(), collector.spans()
    assert b"private" not in told, told[max(0, told.find(b"private") - 200) :][:400]
    assert {span.trace for span in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    by_id = {span.id: span for span in spans}
    lines = sorted(
        (span.name, by_id[span.parent].name if span.parent in by_id else "-") for span in spans
    )
    assert lines == [
        ("GET /things/{name}", "-"),
        ("choir.t.bad", "GET /things/{name}"),
        ("choir.t.bad", "choir.t.bad"),
        ("choir.t.good", "GET /things/{name}"),
        ("choir.t.good", "choir.t.good"),
    ]
    assert [span.name for span in spans if span.failed] == ["choir.t.bad", "choir.t.bad"]


def test_without_a_collector_the_sdk_is_not_loaded(nats: EmbeddedNats) -> None:
    assert run_service(nats, "") == "no sdk"


def test_the_collector_is_named_by_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServiceSettings.load().otlp_endpoint is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert ServiceSettings.load().otlp_endpoint == "http://127.0.0.1:4318"

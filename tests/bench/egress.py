"""Cost of the egress proxy: requests to the rehearsal model through it and directly, one after the other.

One kind of request reuses a connection, as an agent's model calls do; the other opens one each time.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from choir_agent.egress.relay import EgressRelay, open_relay
from choir_common.wire.egress import AgentEgress
from tests.bench.figures import percentile
from tests.support.egress import KEY, EgressProcess, boot_parameters, running_egress
from tests.support.ports import free_port
from tests.support.service_process import short_home

WARM_UP, SAMPLES = 20, 200
BODY: dict[str, Any] = {
    "model": "rehearsal",
    "messages": [
        {"role": "system", "content": "You are an agent. " * 600},
        {"role": "user", "content": "#tools=0 hello"},
    ],
}


@dataclass(slots=True)
class Samples:
    """Milliseconds of the requests of one way."""

    reused: list[float] = field(default_factory=list)
    """Over one connection."""
    new: list[float] = field(default_factory=list)
    """Over a connection of its own."""


async def measure_egress() -> dict[str, float]:
    """Return the median milliseconds of each kind of request, and the ratio of proxied to direct ones."""
    async with short_home() as home, _running_model() as url:
        agent = AgentEgress(agent_id="main", key=KEY, own_hosts=(url.removeprefix("http://"),))
        async with running_egress(home, agent) as egress:
            direct, proxied = await asyncio.to_thread(_compare, url, _relay(egress))
    return {
        **_figures("reused", direct.reused, proxied.reused),
        **_figures("new", direct.new, proxied.new),
    }


def _compare(url: str, relay: EgressRelay) -> tuple[Samples, Samples]:
    """Return the samples of direct and of proxied requests, made in turns; blocks."""
    direct, proxied = Samples(), Samples()
    with (
        asyncio.Runner(loop_factory=asyncio.new_event_loop) as plain,
        asyncio.Runner(loop_factory=relay.make_event_loop) as agent,
    ):
        ways = [
            (runner, taken, _client(url, keep))
            for runner, samples in ((plain, direct), (agent, proxied))
            for taken, keep in ((samples.reused, 1), (samples.new, 0))
        ]
        for number in range(WARM_UP + SAMPLES):
            for runner, taken, client in ways:
                milliseconds = runner.run(_timed(client))
                if number >= WARM_UP:
                    taken.append(milliseconds)
        for runner, _, client in ways:
            runner.run(client.aclose())
    return direct, proxied


def _client(url: str, kept_connections: int) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_keepalive_connections=kept_connections)
    return httpx2.AsyncClient(base_url=url, trust_env=False, limits=limits)


def _figures(kind: str, direct_ms: list[float], proxied_ms: list[float]) -> dict[str, float]:
    direct, proxied = percentile(direct_ms, 0.5), percentile(proxied_ms, 0.5)
    return {
        f"{kind}_direct_p50_ms": round(direct, 2),
        f"{kind}_proxy_p50_ms": round(proxied, 2),
        f"{kind}_ratio": round(proxied / direct, 2),
    }


def _relay(egress: EgressProcess) -> EgressRelay:
    boot = boot_parameters(egress)
    relay = open_relay(boot)
    assert relay is not None
    return relay


async def _timed(client: httpx2.AsyncClient) -> float:
    start = time.perf_counter()
    (await client.post("/v1/chat/completions", json=BODY)).raise_for_status()
    return (time.perf_counter() - start) * 1000


@contextlib.asynccontextmanager
async def _running_model() -> AsyncIterator[str]:
    port = free_port()
    url = f"http://localhost:{port}"
    words = ("-P", "-m", "choir_local.rehearsal", "--port", str(port))
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    try:
        async with asyncio.timeout(30), httpx2.AsyncClient(trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    (await client.get(f"{url}/livez")).raise_for_status()
                    break
                await asyncio.sleep(0.1)
        yield url
    finally:
        process.terminate()
        await process.wait()

"""What the browser's security tests share: a name server that lies, the guard, and a visit to a page."""

import asyncio
import base64
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.egress.proxy import EgressProxy
from choir_browser.egress.traffic_limits import TrafficLimits
from choir_common.clock import SystemClock
from choir_common.egress.addresses import Address
from choir_common.egress.dialer import Dialer, SystemResolver
from choir_common.wire.browser import BrowseRequest, BrowseResponse, OpenPage

MakeRooms = Callable[..., AbstractAsyncContextManager[BrowserContexts]]

FAR_AWAY = "93.184.215.14"
PLENTY = TrafficLimits(256_000_000)


class FlippingResolver:
    """A name server under an attacker's control: each name gives its answers one after the other."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.system = SystemResolver()

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        answers = self.names.get(host)
        if answers is None:
            return await self.system.resolve(host, port)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ipaddress.ip_address(part) for part in answer.split()]


def name_the_trap(resolver: FlippingResolver) -> None:
    """Give this machine names; one resolves differently after the first query."""
    resolver.names |= {
        "trap.test": ["127.0.0.1"],
        "mixed.test": ["10.0.0.1 127.0.0.1 ::1"],
        "mapped.test": ["::ffff:127.0.0.1"],
        "rebind.test": [FAR_AWAY, "127.0.0.1"],
    }


@contextlib.asynccontextmanager
async def make_proxy(dialler: Dialer, rates: TrafficLimits = PLENTY) -> AsyncIterator[EgressProxy]:
    """Open the guard alone."""
    async with EgressProxy(dialler, rates, SystemClock()) as proxy:
        yield proxy


def open_request(agent_id: str, url: str, timeout_ms: int = 60_000) -> BrowseRequest:
    """Ask for a page's text."""
    page = OpenPage(url=url or " ")
    return BrowseRequest(agent_id=agent_id, call_id="c", action=page, timeout_ms=timeout_ms)


async def browse(
    rooms: BrowserContexts, url: str, agent_id: str = "main", timeout_ms: int = 60_000
) -> BrowseResponse:
    """Open a page in an agent's room."""
    return await rooms.browse(open_request(agent_id, url, timeout_ms))


def pass_of(proxy: EgressProxy, agent_id: str = "main") -> str:
    """Return the header field with which the proxy accepts an agent's pages."""
    entry = proxy.issue_credentials(agent_id)
    pair = base64.b64encode(f"{entry.username}:{entry.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {pair}"


@contextlib.asynccontextmanager
async def asking_proxy(
    proxy: EgressProxy, request: str, agent_id: str = "main", body: bytes = b""
) -> AsyncIterator[asyncio.StreamReader]:
    """Send the proxy a request, and hold the line open for the block."""
    port = int(proxy.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request}\r\n{pass_of(proxy, agent_id)}\r\n\r\n".encode() + body)
    try:
        yield reader
    finally:
        writer.close()


async def ask_proxy(proxy: EgressProxy, request: str, agent_id: str = "main") -> bytes:
    """Send the proxy a request; return the first line of what it answers."""
    async with asking_proxy(proxy, request, agent_id) as reader, asyncio.timeout(60):
        return await reader.readline()

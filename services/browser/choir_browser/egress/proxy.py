"""Egress proxy: an HTTP proxy on loopback, Chromium's only route to the network.

Opened by app.py; pages/chromium.py passes its address and an agent's credentials to each context.
The dialer checks and dials each address, then a forwarder copies the bytes.
"""

import asyncio
import base64
import contextlib
import hmac
import secrets
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

import structlog

from choir_browser.egress.traffic_limits import TrafficBucket, TrafficLimits
from choir_common.clock import Clock
from choir_common.egress.dialer import Dialer
from choir_common.egress.forwarding import Forwarder, Streams
from choir_common.egress.http_head import (
    MAX_HEAD_BYTES,
    HttpHead,
    InvalidHead,
    parse_target,
    read_head,
)
from choir_common.egress.responses import write_refusal, write_response
from choir_common.errors import ChoirError, Forbidden, InvalidRequest, RateLimited, Unavailable

log = structlog.get_logger("choir.browser.guard")

HEAD_TIMEOUT_S = 30.0
MAX_CONNECTIONS = 512
REFUSALS_KEPT = 16
# Enough for any page that is worth reading.
MAX_BYTES = 64_000_000
IDLE_TIMEOUT_S = 60.0
GUARD_HEADER = "choir-guard"


@dataclass(frozen=True, slots=True)
class ProxyCredentials:
    """Proxy credentials of an agent's context, so that no other process on the machine can use the proxy."""

    username: str
    password: str


@dataclass(slots=True)
class _AgentTraffic:
    """An agent's password, remaining allowance and recent refusals."""

    password: str
    allowance: TrafficBucket
    dialling: asyncio.Semaphore
    open: int = 0
    refusals: deque[ChoirError] = field(default_factory=lambda: deque(maxlen=REFUSALS_KEPT))


class EgressProxy:
    """Forwards to permitted addresses; answers 403 with the reason for others."""

    def __init__(self, dialer: Dialer, rates: TrafficLimits, clock: Clock) -> None:
        self._dialer = dialer
        self._rates = rates
        self._clock = clock
        self._holders: dict[str, _AgentTraffic] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen on a free loopback port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop listening and close open connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def url(self) -> str:
        """The proxy's URL for Chromium."""
        if self._server is None:
            raise RuntimeError("the proxy is not open")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def issue_credentials(self, agent_id: str) -> ProxyCredentials:
        """Return an agent's credentials; they stay the same until withdrawn."""
        holder = self._holders.get(agent_id)
        if holder is None:
            allowance = TrafficBucket(self._rates, self._clock)
            dialling = asyncio.Semaphore(self._rates.concurrent_dials)
            holder = _AgentTraffic(secrets.token_urlsafe(24), allowance, dialling)
            self._holders[agent_id] = holder
        return ProxyCredentials(agent_id, holder.password)

    def revoke_credentials(self, agent_id: str) -> None:
        """Revoke an agent's credentials."""
        self._holders.pop(agent_id, None)

    def pop_refusal(self, agent_id: str) -> ChoirError | None:
        """Return the last refusal of an agent's connections, or None, and clear all of them."""
        holder = self._holders.get(agent_id)
        if holder is None or not holder.refusals:
            return None
        last = holder.refusals[-1]
        holder.refusals.clear()
        return last

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        # Counted before authentication: any process of this machine can connect.
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            await self._exchange((reader, writer))
        except (InvalidHead, OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            pass  # the browser disconnected or sent invalid data: there is nobody to answer
        except asyncio.CancelledError:
            pass  # on shutdown: asyncio would log a cancelled connection as an error
        except Exception:  # outermost loop of a connection
            log.exception("proxy connection failed")
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, client: Streams) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await read_head(client[0])
        if head is None:
            return
        holder = self._holder_of(head)
        if holder is None:
            await write_response(
                client[1], HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, "", _CHALLENGE
            )
            return
        if holder.open >= self._rates.connections:
            await _refuse(client[1], holder, _TOO_MANY)
            return
        holder.open += 1
        try:
            await self._dial_and_forward(head, holder, client)
        finally:
            holder.open -= 1

    async def _dial_and_forward(
        self, head: HttpHead, holder: _AgentTraffic, client: Streams
    ) -> None:
        method, uri, _ = head.start
        target = parse_target(method, uri)
        await asyncio.sleep(holder.allowance.count_request())
        if holder.allowance.is_empty():
            await _refuse(client[1], holder, holder.allowance.limit_error())
            return
        try:
            async with holder.dialling:
                upstream = await self._dialer.dial(target.host, target.port)
        except ChoirError as error:
            if isinstance(error, Forbidden):
                log.warning(
                    "connection refused by the egress rules", host=target.host, port=target.port
                )
            await _refuse(client[1], holder, error)
            return
        try:
            forwarder = Forwarder(holder.allowance, holder.allowance, MAX_BYTES, IDLE_TIMEOUT_S)
            await forwarder.forward(head, target.path, client, upstream)
        finally:
            upstream[1].close()
            if holder.allowance.is_empty():
                holder.refusals.append(holder.allowance.limit_error())

    def _holder_of(self, head: HttpHead) -> _AgentTraffic | None:
        kind, _, credentials = (head.get("proxy-authorization") or "").partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(credentials).decode().partition(":")
        except ValueError:
            return None
        holder = self._holders.get(name)
        # compare_digest takes the same time for any wrong password.
        if holder is None or not hmac.compare_digest(holder.password, password):
            return None
        return holder


_CHALLENGE = 'Proxy-Authenticate: Basic realm="choir"'
_TOO_MANY = RateLimited("The pages of this agent have too many open connections; close some tabs.")


async def _refuse(writer: asyncio.StreamWriter, holder: _AgentTraffic, error: ChoirError) -> None:
    """Answer in the server's place and store the reason, which a tunnel's client cannot read."""
    if not isinstance(error, Unavailable | InvalidRequest):
        holder.refusals.append(error)
    await write_refusal(writer, error, GUARD_HEADER)

"""HTTP proxy of one agent: CONNECT and plain HTTP over its Unix socket."""

import asyncio
import contextlib
from dataclasses import dataclass
from http import HTTPStatus

import structlog

from choir_common.clock import Clock
from choir_common.egress.addresses import Allowlist
from choir_common.egress.credentials import authenticate
from choir_common.egress.dialer import Dialer, Resolver
from choir_common.egress.forwarding import Forwarder, Streams
from choir_common.egress.http_head import (
    REASON_FIELD,
    HttpHead,
    InvalidHead,
    ProxyTarget,
    parse_target,
    read_head,
)
from choir_common.egress.responses import write_refusal, write_response
from choir_common.errors import ChoirError, Forbidden
from choir_common.wire.egress import CALLS_PATH, AgentEgress
from choir_egress.access import allowlist_of, check_host, decision_for
from choir_egress.call_accounts import CallAccounts
from choir_egress.keyed_requests import KeyedRequests
from choir_egress.proxied_keys import find_server, has_placeholder
from choir_egress.traffic import ProxyConnection, TrafficLog

log = structlog.get_logger("choir.egress")

HEAD_TIMEOUT_S = 30.0
MAX_BYTES = 1 << 40
"""Bytes of one connection: practically unlimited, because commands download data sets."""
CONCURRENT_DIALS = 16
_CHALLENGE = 'Proxy-Authenticate: Basic realm="choir"'


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one agent's connections."""

    connections: int
    idle_s: float


class AgentProxy:
    """Serves the connections of one agent; refuses with status 403 and the reason."""

    def __init__(
        self,
        agent: AgentEgress,
        *,
        exceptions: Allowlist,
        resolver: Resolver,
        keyed_requests: KeyedRequests,
        limits: ProxyLimits,
        traffic: TrafficLog,
        clock: Clock,
    ) -> None:
        self.agent = agent
        """What the agent may reach; replaced when control sends other rules."""
        self._exceptions = exceptions
        self._resolver = resolver
        self._keyed_requests = keyed_requests
        self._limits = limits
        self._traffic = traffic
        self._clock = clock
        self._dialling = asyncio.Semaphore(CONCURRENT_DIALS)
        self._calls = CallAccounts()
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        # Counted before authentication: any process of the agent can connect.
        if task is None or len(self._open) >= self._limits.connections:
            writer.close()
            return
        self._open.add(task)
        try:
            await self._exchange((reader, writer))
        except (InvalidHead, OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            pass  # the client disconnected or sent invalid data: there is nobody to answer
        except asyncio.CancelledError:
            pass  # the agent was removed: asyncio would log a cancelled connection as an error
        except Exception:  # outermost loop of a connection
            log.exception("egress connection failed", agent=self.agent.agent_id)
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def close(self) -> None:
        """End all connections."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._keyed_requests.close()

    async def _exchange(self, client: Streams) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await read_head(client[0])
        if head is None:
            return
        user = authenticate(self.agent.key, head.get("proxy-authorization") or "")
        if user is None:
            status = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            await write_response(client[1], status, "", _CHALLENGE)
            return
        method, uri, _ = head.start
        if uri.startswith(CALLS_PATH) and not user.tool:
            body = self._calls.take(uri.removeprefix(CALLS_PATH)).model_dump_json()
            await write_response(client[1], HTTPStatus.OK, body, "Cache-Control: no-store")
            return
        target = parse_target(method, uri)
        account = ProxyConnection(self.agent.agent_id, user, target.host, target.port)
        try:
            if method != "CONNECT" and await self._forward_with_key(head, target, account, client):
                return
            upstream = await self._dial(account)
        except ChoirError as error:
            decision = decision_for(error)
            self._calls.count(account, decision)
            self._traffic.record_refusal(account, decision, error.message)
            await write_refusal(client[1], error, REASON_FIELD)
            return
        self._calls.count(account, "allowed")
        await self._forward(head, target.path, account=account, client=client, upstream=upstream)

    async def _forward_with_key(
        self, head: HttpHead, target: ProxyTarget, account: ProxyConnection, client: Streams
    ) -> bool:
        """Serve a request to a server whose key the proxy adds; return whether it is one.

        Raises Forbidden, InvalidRequest or Unavailable; the caller then counts the connection again.
        """
        server = find_server(self.agent, account.user, target)
        if server is None:
            if has_placeholder(head.fields):
                raise Forbidden(f"{target.host}:{target.port} is not a server of this key.")
            return False
        self._check_host(account)
        self._calls.count(account, "allowed")
        try:
            await self._keyed_requests.forward(
                head, target, server=server, account=account, client=client
            )
        except OSError:
            self._traffic.record_end(account)
            raise
        self._traffic.record_end(account)
        return True

    def _check_host(self, account: ProxyConnection) -> None:
        check_host(
            self.agent,
            account.user,
            account.host,
            exceptions=self._exceptions,
            now=self._clock.now(),
        )

    async def _dial(self, account: ProxyConnection) -> Streams:
        """Connect to a permitted address.

        Raises Forbidden, InvalidRequest or Unavailable.
        """
        self._check_host(account)
        allow = allowlist_of(self.agent, account.user, self._exceptions)
        async with self._dialling:
            return await Dialer(allow, self._resolver).dial(account.host, account.port)

    async def _forward(
        self,
        head: HttpHead,
        path: str,
        *,
        account: ProxyConnection,
        client: Streams,
        upstream: Streams,
    ) -> None:
        forwarder = Forwarder(account.up, account.down, MAX_BYTES, self._limits.idle_s)
        try:
            await forwarder.forward(head, path, client, upstream)
        finally:
            upstream[1].close()
            self._traffic.record_end(account)

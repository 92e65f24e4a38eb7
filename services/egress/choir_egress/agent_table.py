"""The running agents, with a proxy for each: on its own socket, or behind the port that all share."""

import asyncio
import contextlib
from dataclasses import dataclass

import structlog

from choir_common.clock import Clock
from choir_common.egress.addresses import Allowlist
from choir_common.egress.dialer import Resolver
from choir_common.egress.http_head import MAX_HEAD_BYTES
from choir_common.errors import StartupError, Unavailable
from choir_common.http.listen import bind_unix
from choir_common.redactor import Redactor
from choir_common.wire.egress import AgentEgress, EgressTable
from choir_egress.agent_proxy import AgentProxy, ProxyLimits
from choir_egress.keyed_requests import KeyedRequests
from choir_egress.server_pool import ServerPool, TlsSettings
from choir_egress.settings import EgressSettings
from choir_egress.traffic import TrafficLog

log = structlog.get_logger("choir.egress")


@dataclass(frozen=True, slots=True)
class _OpenProxy:
    proxy: AgentProxy
    server: asyncio.Server | None
    """None if agents connect to the shared port."""


class AgentTable:
    """Opens and closes the proxies of agents as control says which agents run."""

    def __init__(
        self,
        settings: EgressSettings,
        *,
        exceptions: Allowlist,
        resolver: Resolver,
        traffic: TrafficLog,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._exceptions = exceptions
        self._resolver = resolver
        self._traffic = traffic
        self._redactor = redactor
        self._clock = clock
        self._tls = TlsSettings()
        self._proxies: dict[str, _OpenProxy] = {}
        self._changing = asyncio.Lock()

    async def apply(self, table: EgressTable) -> None:
        """Serve exactly these agents, with these rules.

        Raises Unavailable if a socket cannot be opened; the other agents are served nevertheless.
        """
        self._redactor.add_secrets(
            key.value for agent in table.agents for key in agent.proxied_keys
        )
        async with self._changing:
            agent_ids = {agent.agent_id for agent in table.agents}
            for agent_id in self._proxies.keys() - agent_ids:
                await self._close(agent_id)
            failures = [failure for agent in table.agents if (failure := await self._open(agent))]
        if failures:
            raise Unavailable(" ".join(failures))

    def find(self, agent_id: str) -> AgentProxy | None:
        """Return the proxy of a running agent, or None."""
        entry = self._proxies.get(agent_id)
        return entry.proxy if entry else None

    async def close(self) -> None:
        """Close all proxies."""
        await self.apply(EgressTable(agents=()))

    async def _open(self, agent: AgentEgress) -> str:
        """Open an agent's socket, or replace the rules of an open one; return the error, if any."""
        existing = self._proxies.get(agent.agent_id)
        if existing is not None:
            existing.proxy.agent = agent
            return ""
        proxy = AgentProxy(
            agent,
            exceptions=self._exceptions,
            resolver=self._resolver,
            keyed_requests=KeyedRequests(
                ServerPool(self._resolver, self._tls), self._settings.egress_idle_s
            ),
            limits=ProxyLimits(self._settings.egress_connections, self._settings.egress_idle_s),
            traffic=self._traffic,
            clock=self._clock,
        )
        server = None
        if not self._settings.egress_agents:
            try:
                bound = bind_unix(self._settings.proxy_socket(agent.agent_id))
            except StartupError as error:
                return error.message
            server = await asyncio.start_unix_server(proxy.serve, sock=bound, limit=MAX_HEAD_BYTES)
        self._proxies[agent.agent_id] = _OpenProxy(proxy, server)
        log.info("egress opened", agent=agent.agent_id)
        return ""

    async def _close(self, agent_id: str) -> None:
        entry = self._proxies.pop(agent_id)
        if entry.server is not None:
            entry.server.close()
        await entry.proxy.close()
        if entry.server is not None:
            with contextlib.suppress(OSError):
                path = self._settings.proxy_socket(agent_id)
                await asyncio.to_thread(path.unlink, missing_ok=True)
        log.info("egress closed", agent=agent_id)

"""Access of agents to the egress proxy: keys for started agents, and the table that the service gets.

The table also has the values of the secrets that the proxy adds to requests. They are for the agents whose
sessions are bound to them.

The egress service stores nothing, so the table is sent again and again: a new egress process has it within
seconds, and so does a change of the policy.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import httpx2
import structlog

from choir_common.errors import NotFound, Unavailable
from choir_common.http.response_parser import read_problem
from choir_common.i18n import _
from choir_common.wire.egress import AgentEgress, EgressTable, ProxiedKey
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.egress_table import agent_egress
from choir_control.agents.host_store import HostStore
from choir_control.agents.proxied_keys import proxied_keys
from choir_control.agents.runtimes.port import ControlAddress
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore

log = structlog.get_logger("choir.egress")

SEND_INTERVAL_S = 2.0
SEND_TIMEOUT_S = 5.0
KEY_BYTES = 32


class AgentEndpoint(Protocol):
    """TCP listener of control, as the proxy must reach it for agents."""

    def agent_endpoint(self) -> ControlAddress | None: ...


@dataclass(frozen=True, slots=True)
class _AdmittedAgent:
    """A started agent."""

    key: str = field(repr=False)
    tool_resources: frozenset[str]
    bindings: ResourceBindings | None = None
    """The resources of its session, once it has asked for their secrets."""


class EgressRegistry:
    """Gives agents access to the egress proxy; disabled without the address of the service."""

    def __init__(
        self,
        *,
        client: httpx2.AsyncClient | None,
        configuration: ConfigService,
        hosts: HostStore,
        listener: AgentEndpoint,
        otlp_endpoint: str,
        secrets: SecretStore,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._configuration = configuration
        self._hosts = hosts
        self._listener = listener
        self._otlp_endpoint = otlp_endpoint
        self._agents: dict[str, _AdmittedAgent] = {}
        self._sent: dict[str, AgentEgress] = {}
        self._sending = asyncio.Lock()
        self._failure = ""

    @property
    def is_enabled(self) -> bool:
        """Return whether agents use the egress proxy."""
        return self._client is not None

    @property
    def failure_reason(self) -> str:
        """Return why the last table was not received, or an empty string."""
        return self._failure

    async def admit(self, agent_id: str, tool_resources: frozenset[str]) -> str:
        """Return a new key for an agent that is about to start; empty if it needs none.

        `tool_resources` are those whose secrets its external tools receive. The agent starts even if the
        service does not answer: its connections fail until it does.
        """
        if self._client is None:
            log.warning("an agent holds its keys itself: the egress proxy is off", agent=agent_id)
            return ""
        key = secrets.token_hex(KEY_BYTES)
        self._agents[agent_id] = _AdmittedAgent(key, tool_resources)
        try:
            await self.send()
        except Unavailable as error:
            log.warning(
                "an agent starts without network access", agent=agent_id, error=error.message
            )
        return key

    async def lend_key(self, agent_id: str) -> str:
        """Return the key of an agent for a trial of its tools: that of its start, or a new one."""
        agent = self._agents.get(agent_id)
        return agent.key if agent else await self.admit(agent_id, frozenset())

    async def replace_keys(
        self, agent_id: str, bindings: ResourceBindings, values: Mapping[str, str]
    ) -> dict[str, str]:
        """Return an agent's secrets, with placeholders for those that the proxy adds.

        The proxy has their values when this returns, unless it does not answer.
        """
        agent = self._agents.get(agent_id)
        if agent is None:
            return {**values}
        self._agents[agent_id] = replace(agent, bindings=bindings)
        keys = self._proxied_keys(agent_id)
        sent = self._sent.get(agent_id)
        if sent is None or sent.proxied_keys != tuple(keys.values()):
            try:
                await self.send()
            except Unavailable as error:
                log.warning("the proxy does not have keys yet", agent=agent_id, error=error.message)
        return {
            name: keys[name].placeholder if name in keys else value
            for name, value in values.items()
        }

    async def send(self) -> None:
        """Send the table of all agents that were started; raises Unavailable."""
        if self._client is None:
            return
        # One at a time: the service must not get an older table last.
        async with self._sending:
            allowed = await self._hosts.allowed_by_agent()
            await self._send(self._client, self._table(allowed))

    async def _send(self, client: httpx2.AsyncClient, table: EgressTable) -> None:
        try:
            answer = await client.put(
                "/v1/agents", content=table.model_dump_json(), timeout=SEND_TIMEOUT_S
            )
        except httpx2.HTTPError as error:
            self._failure = _("no response; it may be restarting")
            raise Unavailable(_("The egress service does not respond.")) from error
        if answer.is_error:
            problem = read_problem(answer.status_code, answer.content)
            self._failure = problem.message
            raise Unavailable(
                _("The egress service refused the agents: {message}").format(
                    message=problem.message
                )
            )
        self._failure = ""
        self._sent = {agent.agent_id: agent for agent in table.agents}

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _table(self, allowed: Mapping[str, Sequence[str]]) -> EgressTable:
        config = self._configuration.current.config
        control = self._listener.agent_endpoint()
        own_urls = (control.endpoint if control else "", self._otlp_endpoint)
        return EgressTable(
            agents=tuple(
                agent_egress(
                    config,
                    agent_id,
                    agent.key,
                    own_urls,
                    tuple(self._proxied_keys(agent_id).values()),
                    allowed_hosts=allowed.get(agent_id, ()),
                )
                for agent_id, agent in self._agents.items()
                if agent_id in config.agents
            )
        )

    def _proxied_keys(self, agent_id: str) -> dict[str, ProxiedKey]:
        """Return the keys of an agent that has asked for its secrets, by the name of the secret."""
        agent = self._agents[agent_id]
        if agent.bindings is None:
            return {}
        try:
            settings = self._configuration.current.settings_for(agent_id, agent.bindings)
        except NotFound:  # its model was removed
            return {}
        values = self._secrets.get_known(settings.secret_names())
        return proxied_keys(settings, agent.key, values, agent.tool_resources)

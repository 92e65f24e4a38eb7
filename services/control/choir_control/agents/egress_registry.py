"""Access of agents to the egress proxy: keys for started agents, and the table that the service gets.

The egress service stores nothing, so the table is sent again and again: a new egress process has it within
seconds, and so does a change of the policy.
"""

import secrets
from typing import Protocol

import httpx2
import structlog

from choir_common.errors import Unavailable
from choir_common.http.response_parser import read_problem
from choir_common.wire.egress import EgressTable
from choir_control.agents.egress_table import agent_egress
from choir_control.agents.runtimes.port import ControlAddress
from choir_control.configuration.current import ConfigService

log = structlog.get_logger("choir.egress")

SEND_INTERVAL_S = 2.0
SEND_TIMEOUT_S = 5.0
KEY_BYTES = 32


class AgentEndpoint(Protocol):
    """TCP listener of control, as the proxy must reach it for agents."""

    def agent_endpoint(self) -> ControlAddress | None: ...


class EgressRegistry:
    """Gives agents access to the egress proxy; disabled without the address of the service."""

    def __init__(
        self,
        *,
        client: httpx2.AsyncClient | None,
        configuration: ConfigService,
        listener: AgentEndpoint,
        otlp_endpoint: str,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._listener = listener
        self._otlp_endpoint = otlp_endpoint
        self._keys: dict[str, str] = {}
        self._failure = ""

    @property
    def is_enabled(self) -> bool:
        """Return whether agents use the egress proxy."""
        return self._client is not None

    @property
    def failure_reason(self) -> str:
        """Return why the last table was not received, or an empty string."""
        return self._failure

    async def admit(self, agent_id: str) -> str:
        """Return a new key for an agent that is about to start; empty if it needs none.

        The agent starts even if the service does not answer: its connections fail until it does.
        """
        if self._client is None:
            return ""
        key = self._keys[agent_id] = secrets.token_hex(KEY_BYTES)
        try:
            await self.send()
        except Unavailable as error:
            log.warning(
                "an agent starts without network access", agent=agent_id, error=error.message
            )
        return key

    async def send(self) -> None:
        """Send the table of all agents that were started; raises Unavailable."""
        if self._client is None:
            return
        body = self._table().model_dump_json()
        try:
            answer = await self._client.put("/v1/agents", content=body, timeout=SEND_TIMEOUT_S)
        except httpx2.HTTPError as error:
            self._failure = "no response; it may be restarting"
            raise Unavailable("The egress service does not respond.") from error
        if answer.is_error:
            problem = read_problem(answer.status_code, answer.content)
            self._failure = problem.message
            raise Unavailable(f"The egress service refused the agents: {problem.message}")
        self._failure = ""

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _table(self) -> EgressTable:
        config = self._configuration.current.config
        control = self._listener.agent_endpoint()
        own_urls = (control.endpoint if control else "", self._otlp_endpoint)
        return EgressTable(
            agents=tuple(
                agent_egress(config, agent_id, key, own_urls)
                for agent_id, key in self._keys.items()
                if agent_id in config.agents
            )
        )

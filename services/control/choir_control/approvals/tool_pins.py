"""Pins of the tools of MCP servers: the definitions that a person approved last for an agent and a server.

A pin is the newest approved request. Equal definitions are answered by it; any difference asks again, also a
return to definitions of before. See decision 96.
"""

from dataclasses import dataclass
from typing import Literal

import orjson
from pydantic import Field, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import canonical_json
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.mcp_config import McpServerConfig, McpServerName
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.validation_messages import error_messages
from choir_control.configuration.current import ConfigService

REQUEST_TYPE = "mcp_tools"
ContentTool = Literal["resources.list", "resources.read", "prompts.list", "prompts.get"]
PIN_PREFIX = "approval "
"""Beginning of `decided_by` if an earlier approval answered the request."""
_NEWEST = """
SELECT approval_id, payload FROM choir_control.pending_approvals
WHERE agent_id = $1 AND request_type = 'mcp_tools' AND status = 'approved' AND payload ->> 'server' = $2
ORDER BY resolved_at DESC LIMIT 1
"""


class McpToolsPayload(WireModel):
    """What an agent wants to be approved."""

    server: McpServerName
    command: tuple[str, ...] = ()
    url: str | None = None
    tools: tuple[JsonObject, ...] = Field(max_length=200)
    content_tools: tuple[ContentTool, ...] = Field(default=(), max_length=4)
    """Choir's own tools for the server's resources and prompts; their texts are not the server's."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The newest approved definitions."""

    approval_id: str
    payload: JsonObject


async def find_pin(connection: Connection, agent_id: str, server: str) -> Pin | None:
    """Return the pin of a server, or None."""
    row = await connection.fetchrow(_NEWEST, agent_id, server)
    return Pin(row["approval_id"], orjson.loads(row["payload"])) if row is not None else None


async def find_pinned_yes(connection: Connection, agent_id: str, payload: JsonObject) -> str | None:
    """Return the decider of a request for exactly the pinned definitions, or None."""
    pin = await find_pin(connection, agent_id, str(payload.get("server")))
    if pin is None or canonical_json(pin.payload) != canonical_json(payload):
        return None
    return f"{PIN_PREFIX}{pin.approval_id}"


class ToolPinBasis:
    """What a person is shown with the definitions of a server."""

    def __init__(self, database: Database, configuration: ConfigService) -> None:
        self._database = database
        self._configuration = configuration

    async def make_basis(self, agent_id: str, payload: JsonObject) -> JsonObject:
        """Return the definitions that are pinned now, for the difference; empty at the first request.

        Raises InvalidRequest for a server that is not the agent's, or is not configured as the agent says.
        """
        try:
            request = McpToolsPayload.model_validate_json(orjson.dumps(payload))
        except ValidationError as error:
            raise InvalidRequest("; ".join(error_messages(error, "payload")[:3])) from error
        servers = self._configuration.current.config.mcp.servers_of(agent_id)
        config = servers.get(request.server)
        if config is None or not _is_same(config, request):
            raise InvalidRequest(
                _(
                    "config.json has no MCP server {server!r} of {agent_id} with this command or url."
                ).format(server=request.server, agent_id=agent_id)
            )
        async with self._database.connection() as connection:
            pin = await find_pin(connection, agent_id, request.server)
        return {} if pin is None else {"approved": pin.payload}


def _is_same(config: McpServerConfig, request: McpToolsPayload) -> bool:
    return (config.command, config.url) == (request.command, request.url)

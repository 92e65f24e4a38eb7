"""Command `/mcp`: the MCP servers of an agent, as the agent reports them."""

from choir_common.wire.rpc import McpServerStatus
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.parser import target_agent
from choir_control.conversations.commands.spec import CommandCall

MAX_TOOLS = 15
"""Names of a server that are shown; `choirctl mcp test` shows all."""


async def show_servers(context: CommandContext, call: CommandCall) -> str:
    """Return the state and the tools of each MCP server of a running agent."""
    view = await context.overview.one(target_agent(call))
    servers = [server for lane in view.lanes for server in lane.mcp_servers]
    if not servers:
        return f"{view.agent_id} runs no MCP servers."
    return "\n".join(line for server in servers for line in _lines(server))


def _lines(server: McpServerStatus) -> list[str]:
    count = len(server.tools)
    first = f"{server.name} is {server.state}, {count} tool{'' if count == 1 else 's'}."
    lines = [f"{first} {server.detail}".rstrip(), *(f"  {text}" for text in server.progress)]
    if count:
        names = [tool.removeprefix(f"mcp.{server.name}.") for tool in server.tools[:MAX_TOOLS]]
        more = f" and {count - MAX_TOOLS} more" if count > MAX_TOOLS else ""
        lines.append(f"  {', '.join(names)}{more}")
    return lines

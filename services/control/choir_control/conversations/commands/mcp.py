"""Command `/mcp`: the MCP servers of an agent, as the agent reports them."""

from choir_common.i18n import _, join, ngettext
from choir_common.sentence_translation import StoredSentence
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
        return _("{agent} runs no MCP servers.").format(agent=view.agent_id)
    return join("\n", (line for server in servers for line in _lines(server)))


def _lines(server: McpServerStatus) -> list[str]:
    count = len(server.tools)
    first: str = ngettext(
        "{name} is {state}, {count} tool.",
        "{name} is {state}, {count} tools.",
        count,
        name=server.name,
        state=server.state,
    )
    if server.detail:
        first = join(" ", (first, StoredSentence(server.detail)))
    lines = [first, *(f"  {text}" for text in server.progress)]
    if count:
        names = [tool.removeprefix(f"mcp.{server.name}.") for tool in server.tools[:MAX_TOOLS]]
        listed = f"  {', '.join(names)}"
        if count > MAX_TOOLS:
            more = ngettext("and {count} more", "and {count} more", count - MAX_TOOLS)
            listed = join(" ", (listed, more))
        lines.append(listed)
    return lines

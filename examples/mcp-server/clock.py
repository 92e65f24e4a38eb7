#!/usr/bin/env python3
"""An MCP server with one tool: the time in a time zone. It speaks over standard input and output."""

from datetime import datetime
from zoneinfo import ZoneInfo

from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool()
def time_in(zone: str) -> str:
    """Tell the time in a time zone, such as Europe/Berlin."""
    return datetime.now(ZoneInfo(zone)).isoformat(timespec="minutes")


if __name__ == "__main__":
    server.run("stdio")

"""The MCP server, `/mcp/AGENT`: an agent as tools for programs that have a client's token.

Only `sdk_server` imports the SDK `mcp`, and it is imported when the first request comes: a choird whose
agents nobody calls pays nothing. See docs/mcp-server.md and decision 100.
"""

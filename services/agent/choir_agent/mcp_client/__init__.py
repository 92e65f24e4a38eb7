"""Client of MCP servers: starts them, has their tools approved, and offers these to the agent.

Only `connection`, `hosted_session`, `server_requests` and `streams` import the SDK `mcp`, and they are
imported when the first server starts: an agent without servers pays nothing. See docs/mcp.md and decisions 96
and 101.
"""

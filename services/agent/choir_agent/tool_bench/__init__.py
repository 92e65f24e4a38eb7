"""Programs that check and try external tools with the agent's own loader and runner, without a session.

`python -I -m choir_agent.tool_bench check|try` reads one JSON object on standard input, and writes one on
standard output (`choir_common.wire.local_tools`).
"""

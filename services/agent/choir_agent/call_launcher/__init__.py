"""Process that starts the programs of tool calls, each in a domain of its own.

It runs in an isolated interpreter beside the agent and forks for each call, so that no interpreter starts
per call. Imports only the standard library and itself. `tools/call_launcher_client.py` is its client.
"""

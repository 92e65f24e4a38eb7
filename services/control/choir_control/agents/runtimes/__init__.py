"""Agent runtimes: the port `AgentRuntime`, with one adapter per deployment.

Used by `choir_control.sessions`, which is independent of the adapter in use.
"""

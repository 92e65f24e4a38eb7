"""Agent runtimes: the port `AgentRuntime`, with one adapter per deployment.

The session lifecycle uses only the port.
"""

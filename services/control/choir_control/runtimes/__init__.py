"""How an agent's process comes to be and ends: one port, `AgentRuntime`, and an adapter per deployment.

Called by `sessions`. Business code never asks which adapter it has.
"""

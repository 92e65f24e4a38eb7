"""Questions of agents to other agents of this installation: rules, delivery, answers and their end.

See docs/agents.md and docs/decisions/0105.
"""

"""Updates of agents to their newest image or configuration.

What an image contains is decided by `choir_control.images`; stop and start belong to
`choir_control.agents.sessions`.
"""

"""Updates of agents to their newest image: build, update and update-all.

What an image contains is decided by `choir_control.images`; stop and start belong to
`choir_control.sessions`.
"""

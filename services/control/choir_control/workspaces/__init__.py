"""File operations on workspaces: measure, empty, stage incoming files and copy outgoing ones.

`choir_control.agents.sessions.workspace_reset` decides when a workspace may be emptied. All functions
block, so callers run them in threads.
"""

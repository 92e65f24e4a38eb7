"""File operations on workspaces: measure, empty, stage incoming files and copy outgoing ones.

When a workspace may be emptied is decided by `choir_control.sessions.reset`, which leases it meanwhile. All
functions block, so callers run them in threads.
"""

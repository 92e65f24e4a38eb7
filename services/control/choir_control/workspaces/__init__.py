"""File operations on workspaces: measure, empty, stage incoming files and copy outgoing ones.

All functions that use the file system block, so callers run them in threads.
"""

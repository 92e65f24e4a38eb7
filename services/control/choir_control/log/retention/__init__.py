"""Deletion of old data: signals, messages, operations, and the logs of ended sessions.

Owns the rules about what may be deleted. Never touches the log of a live session. The newest conversation of
an agent stays, unless it is incognito.
"""

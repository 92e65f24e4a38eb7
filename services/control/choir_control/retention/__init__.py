"""Owns what is deleted for its age: old signals, messages and operations, and the logs of ended sessions.

Never touches a live session's log, nor the newest conversation of an agent. Ladder: job > log_store |
row_store.
"""

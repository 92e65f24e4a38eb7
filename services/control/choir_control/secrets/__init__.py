"""Keeps secret values in memory, and hands out those that a session's resources need.

Never writes one down: not in a log, an event, the database, an environment or a file.
"""

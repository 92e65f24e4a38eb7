"""The session's log inside the agent: its events in memory, and what they add up to.

Appended to by the arbiter alone; read by replication, the event window and the lanes. State is never kept
beside the log: it is a fold of it.
"""

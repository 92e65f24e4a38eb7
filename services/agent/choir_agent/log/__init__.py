"""The session's event log inside the agent: the newest events in memory, and the state they fold to.

Appended to by the arbiter only; read by replication, the event window and the lanes. State is never stored
separately: it is always a fold of the log. See docs/design/log-and-recovery.md.
"""

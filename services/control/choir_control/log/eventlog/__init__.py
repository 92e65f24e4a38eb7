"""The durable event log: appends, reads and verification.

Owns the events of all sessions. Never changes an event. Does not deliver replies: an append only
creates the outbox row, and the outbox delivers it.
"""

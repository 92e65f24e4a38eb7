"""Owns the durable log: accepts what an agent appends, reads it back, verifies it.

Never edits an event; never delivers what a reply says (the outbox does, from the row made here).
Ladder: append > group > intake | pace | recovery_store > store; rehearsal stands alone.
"""

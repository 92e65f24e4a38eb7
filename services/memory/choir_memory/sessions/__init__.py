"""Conversion of sessions into mid-term and long-term memory.

Owns the archive progress of each session (`choir_memory.sessions`). Every write is one transaction that
can be interrupted at any point and repeated. Control decides when a session has ended. No text is
discarded when a session is promoted.
"""

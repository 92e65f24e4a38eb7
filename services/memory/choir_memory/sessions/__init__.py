"""Turns what was said and done in sessions into memory: mid-term, then long-term (spec 11.4, 11.5, 11.8).

Owns how far each session has come (`choir_memory.sessions`). Every write is one transaction that can be cut
at any point and repeated. Never decides when a session has ended (control does), and throws no words away.

    record    units that somebody else cut
    store     how far each session has come; one writer per session
"""

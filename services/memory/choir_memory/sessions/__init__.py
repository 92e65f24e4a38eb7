"""Turns what was said and done in sessions into memory: mid-term, then long-term (spec 11.4, 11.5, 11.8).

Owns how far each session has come (`choir_memory.sessions`). Every write is one transaction that can be cut
at any point and repeated. Never decides when a session has ended (control does), and throws no words away.

    archive       a page of a session's log into mid-term memory
    erase         forget a session for good
    promote       the oldest sessions into long-term memory
    record        units that somebody else cut
    summary       the documents that stand for a promoted session, pure
    chunks        a log cut into units, pure; `wording` puts events into words
    troubles      what goes wrong with tools and how it ends, pure
    store         how far each session has come; one writer per session
    detail_store  what stands in a session, for its summary
"""

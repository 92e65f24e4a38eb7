"""Audit log of memory: every write, every document an operator reads, every read of another agent's memory.

Entries name documents by id and contain no content; keys count as content. An agent's searches of
its own memory are not audited: each has a receipt instead.
"""

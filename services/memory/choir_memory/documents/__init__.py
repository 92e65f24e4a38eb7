"""Rows of session memory, and links between documents.

Owns the literals for tiers, kinds, origins and trust, the ids of rows, and all statements that write
`memory_documents` or `links`. The callers decide what to keep, and queue what they write in `embedding`.
"""

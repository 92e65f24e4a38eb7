"""Rows of session memory, and links between documents.

Owns the literals for tiers, kinds, origins and trust, the ids of rows, and all statements that write
`memory_documents` or `links`. Does not decide what to keep (`sessions`, `grains` and `layers` do) and
does not create vectors: callers that write a document queue it in `embedding`.
"""

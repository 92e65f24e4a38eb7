"""Vectors for documents and queries, computed in batches outside of the write path.

Owns the durable queue of documents that need a vector, the offline model, the provider client, and the
change from one model to another. An embedding failure never fails a write or a search: a document without
a vector is found by full text (docs/design/memory.md rules 20 and 21).
"""

"""Vectors for documents and queries: made in batches, off the write path, and never in the way.

Owns the durable queue of documents that still need a vector, the offline model and the provider.
Never fails a write or a search: without a vector a document is found by full text (spec 11.9).

    queue            the worker: claim, embed, store, retry
    queue_store      the queue and the vectors in Postgres
    guard            deadline, circuit breaker and cache for queries; what troubles the embedder
    offline          the model from a wheel, in one thread; `offline_model` loads it
    provider         an OpenAI-compatible API; `provider_client` speaks to it
    port             what an embedder is
"""

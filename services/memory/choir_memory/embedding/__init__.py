"""Vectors for documents and queries: made in batches, off the write path, and never in the way.

Owns the durable queue of documents that still need a vector, the offline model and the provider, and the
change from one model to another. Never fails a write or a search: without a vector a document is found by
full text (spec 11.9).

    choose           the configured model, and how to get those that are stored
    figures          how it stands, for Prometheus
    rebuild          the walk that gives every document a vector of a new model
    queue            the worker: claim, embed, store, retry
    embedders        the live models with their embedders; which of them serves
    model_store      the models and their walks in Postgres
    queue_store      the queue and the vectors in Postgres
    guard            deadline, circuit breaker and cache for queries; what troubles the embedder
    together         the queries that wait at the same time, in one call
    offline          the model from a wheel, in one thread; `offline_model` loads it
    provider         an OpenAI-compatible API; `provider_client` speaks to it
    port             what an embedder is
"""

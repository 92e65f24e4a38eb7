"""Benchmark of the memory service: `make bench-memory`, which runs `python -m tests.bench.memory`.

Postgres, NATS and the service process are real; only the embedding provider is a fake that responds at once.
The baseline ("floor") is plain pgvector.
"""

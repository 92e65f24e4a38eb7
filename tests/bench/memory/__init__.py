"""Measure the memory service: `make bench-memory`, which is `python -m tests.bench.memory`.

Real Postgres, NATS and service process; only the embedding model is played, by a server that answers at once.

    __main__    what is measured in which order, the table, `.bench/memory.json`
    corpus      made-up documents, questions and vectors, the same at every run
    provider    an OpenAI-compatible server of those vectors, in a process of its own
    load        fill spaces by COPY
    stage       what runs
    asking      a question to the service, or to plain pgvector: the floor
    schemas, writing, spaces, crowd   the measurements
    recall      what an index misses
    figures     the shape of the results
"""

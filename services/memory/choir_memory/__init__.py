"""The memory service of Choir: per-agent knowledge, embeddings, hybrid search."""

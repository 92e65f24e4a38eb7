-- What was said keeps its vectors when its session goes to long-term memory; only `retention.vectors` takes them.
ALTER TABLE {schema}.memory_documents ADD COLUMN keep_vectors boolean NOT NULL DEFAULT true;

-- Before, promotion dropped the vectors: ask for them again. With `due_at`, so that what is written now goes first.
INSERT INTO choir_memory.embedding_queue (agent_id, store, document_id, model, due_at)
SELECT s.agent_id, 'session', d.id, m.id, now()
FROM {schema}.memory_documents d, choir_memory.spaces s, choir_memory.embedding_models m
WHERE d.tier = 'long_term_detail' AND m.state <> 'retired'
    AND 'choir_' || s.agent_id = trim(BOTH '"' FROM '{schema}')
    AND NOT EXISTS (
        SELECT FROM {schema}.memory_embeddings e WHERE e.document_id = d.id AND e.model = m.id);

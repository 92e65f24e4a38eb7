-- The extraction looks for turns after its position about a minute after every new one.
CREATE INDEX memory_documents_turns ON {schema}.memory_documents (created_at, session_id, chunk_index) WHERE kind = 'turn';

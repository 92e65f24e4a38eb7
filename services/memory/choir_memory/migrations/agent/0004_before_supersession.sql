-- What a document was before another one replaced it: restored when that one is forgotten. Null: it was not replaced.
ALTER TABLE {schema}.knowledge_documents
    ADD COLUMN status_before   text CHECK (status_before IN ('active', 'held')),
    ADD COLUMN valid_to_before timestamptz;

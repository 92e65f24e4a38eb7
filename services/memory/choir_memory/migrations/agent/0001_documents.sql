-- No pending lists (fastupdate) in the text indexes: every search would read them from end to end.
CREATE TABLE {schema}.memory_documents (
    id          uuid PRIMARY KEY,
    session_id  text NOT NULL,
    tier        text NOT NULL CHECK (tier IN ('mid_term', 'long_term_summary', 'long_term_detail')),
    chunk_index int NOT NULL,
    first_rev   bigint,
    last_rev    bigint,
    text        text NOT NULL,
    tsv         tsvector NOT NULL,
    tokens      int NOT NULL,
    version     int NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    metadata    jsonb NOT NULL DEFAULT '{}',
    UNIQUE (session_id, tier, chunk_index)
);
CREATE INDEX memory_documents_tsv ON {schema}.memory_documents USING gin (tsv) WITH (fastupdate = off);

CREATE TABLE {schema}.knowledge_documents (
    id         uuid PRIMARY KEY,
    key        text UNIQUE,
    text       text NOT NULL,
    tsv        tsvector NOT NULL,
    tokens     int NOT NULL,
    version    int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    metadata   jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX knowledge_documents_tsv ON {schema}.knowledge_documents USING gin (tsv) WITH (fastupdate = off);

-- The answer given under each call_id: a repeated call gets it again and changes nothing.
CREATE TABLE {schema}.operations (
    call_id text PRIMARY KEY,
    digest  text NOT NULL,
    answer  jsonb,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- A long document has several passages, a vector each. The length of vectors is the active model's.
-- Stored in the row itself: fetching them from a TOAST table costs more than the distance.
DO $$
DECLARE
    n int := (SELECT dimensions FROM choir_memory.embedding_models WHERE state = 'active');
BEGIN
    EXECUTE format(
        'CREATE TABLE {schema}.memory_embeddings (
            document_id uuid NOT NULL REFERENCES {schema}.memory_documents (id) ON DELETE CASCADE,
            part smallint NOT NULL,
            embedding public.halfvec(%1$s) STORAGE PLAIN NOT NULL,
            PRIMARY KEY (document_id, part));
         CREATE TABLE {schema}.knowledge_embeddings (
            document_id uuid NOT NULL REFERENCES {schema}.knowledge_documents (id) ON DELETE CASCADE,
            part smallint NOT NULL,
            embedding public.halfvec(%1$s) STORAGE PLAIN NOT NULL,
            PRIMARY KEY (document_id, part))', n);
END $$;

GRANT USAGE ON SCHEMA {schema} TO {schema};
GRANT SELECT, INSERT, UPDATE, DELETE ON
    {schema}.memory_documents, {schema}.memory_embeddings,
    {schema}.knowledge_documents, {schema}.knowledge_embeddings,
    {schema}.operations
TO {schema};

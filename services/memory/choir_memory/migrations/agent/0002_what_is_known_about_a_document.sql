-- Session memory: who said it, when it happened, how far it may be trusted. A row is one unit that search ranks:
-- a turn, a run of tools, a part of a summary. Its neighbours are the rows before and after it in its session.
ALTER TABLE {schema}.memory_documents
    DROP CONSTRAINT memory_documents_tier_check,
    ALTER COLUMN session_id DROP NOT NULL,
    ADD COLUMN kind        text NOT NULL DEFAULT 'turn'
        CHECK (kind IN ('turn', 'tools', 'note', 'summary')),
    ADD COLUMN speaker     text,
    -- share of the text that is questions
    ADD COLUMN asking      real NOT NULL DEFAULT 0,
    ADD COLUMN happened_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN ended_at    timestamptz,
    -- time summaries: day, week, month, quarter, year, and the period as people write it (2024-W03)
    ADD COLUMN grain       text CHECK (grain IN ('day', 'week', 'month', 'quarter', 'year')),
    ADD COLUMN period      text,
    ADD COLUMN origin      text NOT NULL DEFAULT 'agent',
    ADD COLUMN trust       smallint NOT NULL DEFAULT 50 CHECK (trust BETWEEN 0 AND 100),
    ADD COLUMN expires_at  timestamptz,
    ADD CONSTRAINT memory_documents_tier_check CHECK (
        tier IN ('mid_term', 'long_term_summary', 'long_term_detail', 'grain_summary')),
    ADD CONSTRAINT memory_documents_belong CHECK (
        (session_id IS NULL) = (tier = 'grain_summary')
        AND (grain IS NULL) = (period IS NULL) AND (grain IS NOT NULL) = (tier = 'grain_summary'));
CREATE UNIQUE INDEX memory_documents_period ON {schema}.memory_documents (grain, period, chunk_index)
    WHERE grain IS NOT NULL;
CREATE INDEX memory_documents_time ON {schema}.memory_documents (happened_at);

-- Knowledge: notes as before, and what is derived. Facts are bi-temporal: true from valid_from to valid_to, known to
-- us from created_at to retired_at; a fact that no longer holds is closed, never overwritten.
ALTER TABLE {schema}.knowledge_documents
    ADD COLUMN kind        text NOT NULL DEFAULT 'note' CHECK (
        kind IN ('note', 'fact', 'rule', 'episode', 'error', 'entity', 'document_chunk')),
    ADD COLUMN status      text NOT NULL DEFAULT 'active' CHECK (
        status IN ('active', 'held', 'retired')),
    ADD COLUMN category    text,
    ADD COLUMN subject     text,
    ADD COLUMN predicate   text,
    ADD COLUMN object      text,
    ADD COLUMN evidence    text,
    ADD COLUMN happened_at timestamptz,
    ADD COLUMN valid_from  timestamptz,
    ADD COLUMN valid_to    timestamptz,
    ADD COLUMN retired_at  timestamptz,
    ADD COLUMN seen_count  int NOT NULL DEFAULT 1,
    ADD COLUMN expires_at  timestamptz,
    ADD COLUMN collection  text,
    ADD COLUMN chunk_index int,
    ADD COLUMN origin      text NOT NULL DEFAULT 'agent',
    ADD COLUMN trust       smallint NOT NULL DEFAULT 50 CHECK (trust BETWEEN 0 AND 100),
    ADD CONSTRAINT retired_is_dated CHECK ((retired_at IS NOT NULL) = (status = 'retired'));
CREATE INDEX knowledge_documents_kind ON {schema}.knowledge_documents (kind, created_at);
CREATE INDEX knowledge_documents_about ON {schema}.knowledge_documents (subject, predicate)
    WHERE subject IS NOT NULL;
CREATE UNIQUE INDEX knowledge_documents_collection
    ON {schema}.knowledge_documents (collection, chunk_index) WHERE collection IS NOT NULL;

-- Why a derived row is there. Both ends may stand in either table, so no foreign key can name them: whoever deletes a
-- document deletes its links and, if nothing else supports it, what was derived from it.
CREATE TABLE {schema}.links (
    from_id uuid NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('evidence', 'supersedes', 'mentions', 'rolls_up')),
    to_id   uuid NOT NULL,
    PRIMARY KEY (from_id, kind, to_id)
);
CREATE INDEX links_back ON {schema}.links (to_id, kind);

-- Vectors of two models stand beside each other while the second is being built. The column itself takes any length; an
-- index over it names model and length.
DO $$
DECLARE
    m int := (SELECT id FROM choir_memory.embedding_models WHERE state = 'active');
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['memory_embeddings', 'knowledge_embeddings'] LOOP
        EXECUTE format(
            'ALTER TABLE {schema}.%1$s
                ALTER COLUMN embedding TYPE public.halfvec,
                ALTER COLUMN embedding SET STORAGE PLAIN,
                ADD COLUMN model int NOT NULL DEFAULT %2$s,
                DROP CONSTRAINT %1$s_pkey,
                ADD PRIMARY KEY (document_id, model, part)', t, m);
        EXECUTE format('ALTER TABLE {schema}.%1$s ALTER COLUMN model DROP DEFAULT', t);
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.links TO {schema};

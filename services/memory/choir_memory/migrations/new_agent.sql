-- The schema of a new agent: what all files in agent/ make of an empty one, in half of their time. A migration that is
-- added there is added here, too; tests/service/memory/test_new_schema.py compares them. Explanations are in those files.
CREATE TABLE {schema}.memory_documents (
    id           uuid PRIMARY KEY,
    session_id   text,
    tier         text NOT NULL CHECK (
        tier IN ('mid_term', 'long_term_summary', 'long_term_detail', 'grain_summary')),
    chunk_index  int NOT NULL,
    first_rev    bigint,
    last_rev     bigint,
    text         text NOT NULL,
    tsv          tsvector NOT NULL,
    tokens       int NOT NULL,
    version      int NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT now(),
    metadata     jsonb NOT NULL DEFAULT '{}',
    kind         text NOT NULL DEFAULT 'turn' CHECK (kind IN ('turn', 'tools', 'note', 'summary')),
    speaker      text,
    asking       real NOT NULL DEFAULT 0,
    happened_at  timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    grain        text CHECK (grain IN ('day', 'week', 'month', 'quarter', 'year')),
    period       text,
    origin       text NOT NULL DEFAULT 'agent',
    trust        smallint NOT NULL DEFAULT 50 CHECK (trust BETWEEN 0 AND 100),
    expires_at   timestamptz,
    keep_vectors boolean NOT NULL DEFAULT true,
    conversations text[] DEFAULT '{}',
    UNIQUE (session_id, tier, chunk_index),
    CONSTRAINT memory_documents_belong CHECK (
        (session_id IS NULL) = (tier = 'grain_summary')
        AND (grain IS NULL) = (period IS NULL) AND (grain IS NOT NULL) = (tier = 'grain_summary'))
);
CREATE INDEX memory_documents_tsv ON {schema}.memory_documents USING gin (tsv) WITH (fastupdate = off);
CREATE INDEX memory_documents_time ON {schema}.memory_documents (happened_at);
CREATE UNIQUE INDEX memory_documents_period ON {schema}.memory_documents (grain, period, chunk_index)
    WHERE grain IS NOT NULL;
CREATE INDEX memory_documents_turns ON {schema}.memory_documents (created_at, session_id, chunk_index)
    WHERE kind = 'turn';

CREATE TABLE {schema}.knowledge_documents (
    id              uuid PRIMARY KEY,
    key             text UNIQUE,
    text            text NOT NULL,
    tsv             tsvector NOT NULL,
    tokens          int NOT NULL,
    version         int NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    metadata        jsonb NOT NULL DEFAULT '{}',
    kind            text NOT NULL DEFAULT 'note' CHECK (
        kind IN ('note', 'fact', 'rule', 'episode', 'error', 'entity', 'document_chunk')),
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'held', 'retired')),
    category        text,
    subject         text,
    predicate       text,
    object          text,
    evidence        text,
    happened_at     timestamptz,
    valid_from      timestamptz,
    valid_to        timestamptz,
    retired_at      timestamptz,
    seen_count      int NOT NULL DEFAULT 1,
    expires_at      timestamptz,
    collection      text,
    chunk_index     int,
    origin          text NOT NULL DEFAULT 'agent',
    trust           smallint NOT NULL DEFAULT 50 CHECK (trust BETWEEN 0 AND 100),
    status_before   text CHECK (status_before IN ('active', 'held')),
    valid_to_before timestamptz,
    conversations   text[] DEFAULT '{}',
    CONSTRAINT retired_is_dated CHECK ((retired_at IS NOT NULL) = (status = 'retired'))
);
CREATE INDEX knowledge_documents_tsv ON {schema}.knowledge_documents USING gin (tsv) WITH (fastupdate = off);
CREATE INDEX knowledge_documents_kind ON {schema}.knowledge_documents (kind, created_at);
CREATE INDEX knowledge_documents_about ON {schema}.knowledge_documents (subject, predicate)
    WHERE subject IS NOT NULL;
CREATE UNIQUE INDEX knowledge_documents_collection
    ON {schema}.knowledge_documents (collection, chunk_index) WHERE collection IS NOT NULL;

CREATE TABLE {schema}.memory_embeddings (
    document_id uuid NOT NULL REFERENCES {schema}.memory_documents (id) ON DELETE CASCADE,
    part        smallint NOT NULL,
    embedding   public.halfvec STORAGE PLAIN NOT NULL,
    model       int NOT NULL,
    PRIMARY KEY (document_id, model, part)
);
CREATE TABLE {schema}.knowledge_embeddings (
    document_id uuid NOT NULL REFERENCES {schema}.knowledge_documents (id) ON DELETE CASCADE,
    part        smallint NOT NULL,
    embedding   public.halfvec STORAGE PLAIN NOT NULL,
    model       int NOT NULL,
    PRIMARY KEY (document_id, model, part)
);

CREATE TABLE {schema}.operations (
    call_id text PRIMARY KEY,
    digest  text NOT NULL,
    answer  jsonb,
    made_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE {schema}.links (
    from_id uuid NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('evidence', 'supersedes', 'mentions', 'rolls_up')),
    to_id   uuid NOT NULL,
    PRIMARY KEY (from_id, kind, to_id)
);
CREATE INDEX links_back ON {schema}.links (to_id, kind);

CREATE TABLE {schema}.words (word varchar(32) COLLATE "C" NOT NULL);
CREATE INDEX words_word ON {schema}.words (word);
CREATE TRIGGER add_words AFTER INSERT ON {schema}.memory_documents
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.add_words();
CREATE TRIGGER add_words AFTER INSERT ON {schema}.knowledge_documents
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.add_words();
CREATE TRIGGER remove_words AFTER DELETE ON {schema}.memory_documents
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.remove_words();
CREATE TRIGGER remove_words AFTER DELETE ON {schema}.knowledge_documents
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.remove_words();
CREATE TRIGGER replace_words AFTER UPDATE OF tsv ON {schema}.memory_documents
    FOR EACH ROW WHEN (OLD.tsv IS DISTINCT FROM NEW.tsv) EXECUTE FUNCTION choir_memory.remove_words();
CREATE TRIGGER replace_words AFTER UPDATE OF tsv ON {schema}.knowledge_documents
    FOR EACH ROW WHEN (OLD.tsv IS DISTINCT FROM NEW.tsv) EXECUTE FUNCTION choir_memory.remove_words();

CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.memory_documents
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.memory_embeddings
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.knowledge_documents
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();
CREATE TRIGGER space_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {schema}.knowledge_embeddings
    FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.record_space_change();

CREATE FUNCTION {schema}.changed_since(which text, snapshot pg_snapshot) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM choir_memory.space_changes c
        WHERE c.agent_id = substr(trim(BOTH '"' FROM '{schema}'), 7) AND c.store = $1
          AND c.xid >= pg_snapshot_xmin($2) AND NOT pg_visible_in_snapshot(c.xid, $2));
END $$;

GRANT USAGE ON SCHEMA {schema} TO {schema};
GRANT SELECT, INSERT, UPDATE, DELETE ON
    {schema}.memory_documents, {schema}.memory_embeddings,
    {schema}.knowledge_documents, {schema}.knowledge_embeddings,
    {schema}.operations, {schema}.links
TO {schema};
GRANT SELECT, INSERT, DELETE ON {schema}.words TO {schema};

-- These are of the service, one table for all agents: ten thousand agents would make thirty thousand tables of
-- them. No agent's role can reach this schema.

-- Who did what to whose memory. Says which documents, never what stood in them.
CREATE TABLE {schema}.audit (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT now(),
    agent_id     text NOT NULL,
    actor        text NOT NULL,
    operation    text NOT NULL,
    document_ids uuid[] NOT NULL DEFAULT '{}',
    detail       jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_of_agent ON {schema}.audit (agent_id, id);

-- What a search did: which arms, which scores, which documents, what was cut.
CREATE TABLE {schema}.receipts (
    id       uuid PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    agent_id text NOT NULL,
    asked_by text NOT NULL,
    receipt  jsonb NOT NULL
);
CREATE INDEX receipts_of_agent ON {schema}.receipts (agent_id, at);
CREATE INDEX receipts_at ON {schema}.receipts (at);

-- How far a pipeline has come: archiving, consolidation, extraction. `holder` has it until `held_until`.
CREATE TABLE {schema}.cursors (
    agent_id   text NOT NULL,
    name       text NOT NULL,
    position   jsonb NOT NULL DEFAULT '{}',
    holder     text,
    held_until timestamptz,
    PRIMARY KEY (agent_id, name)
);

-- How far each session has come on its way into memory. A session that was erased stays as a row, so that nothing of it
-- is stored again.
CREATE TABLE {schema}.sessions (
    agent_id    text NOT NULL,
    session_id  text NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    through_rev bigint NOT NULL DEFAULT 0,
    -- what was begun in the events up to there and has not ended: the next page goes on with it
    unsettled   jsonb NOT NULL DEFAULT '{}',
    summary     text NOT NULL DEFAULT '',
    topics      jsonb NOT NULL DEFAULT '[]',
    promoted_at timestamptz,
    erased_at   timestamptz,
    PRIMARY KEY (agent_id, session_id)
);
CREATE INDEX sessions_to_promote ON {schema}.sessions (agent_id, started_at DESC, session_id DESC)
    WHERE ended_at IS NOT NULL AND promoted_at IS NULL AND erased_at IS NULL;

-- Re-embedding is an online migration: documents get vectors of the model that is being built while those of the active
-- one are searched. `at_…` is how far the walk over all documents has come, so that it goes on where it was cut off;
-- a retired model is walked over again, to drop its vectors.
ALTER TABLE {schema}.embedding_models
    -- tells whether the provider of a model is still the configured one; an address may hold a password
    ADD COLUMN source      text,
    ADD COLUMN changed_at  timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN documents   bigint,
    ADD COLUMN walked      bigint NOT NULL DEFAULT 0,
    ADD COLUMN at_agent    text NOT NULL DEFAULT '',
    ADD COLUMN at_store    text,
    ADD COLUMN at_document uuid,
    ADD COLUMN walk_done   boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX one_building_model ON {schema}.embedding_models (state) WHERE state = 'building';

-- A job is a document and a model. Without `due_at` it is due at once, whatever clock jumps; with it, it failed before.
ALTER TABLE {schema}.embedding_queue
    ALTER COLUMN due_at DROP NOT NULL,
    ALTER COLUMN due_at DROP DEFAULT,
    ADD COLUMN model   int,
    ADD COLUMN refused boolean NOT NULL DEFAULT false;
UPDATE {schema}.embedding_queue SET due_at = NULL,
    model = (SELECT id FROM {schema}.embedding_models WHERE state = 'active');
ALTER TABLE {schema}.embedding_queue ALTER COLUMN model SET NOT NULL;
DROP INDEX {schema}.embedding_queue_due;
CREATE INDEX embedding_queue_new ON {schema}.embedding_queue (model, id) WHERE due_at IS NULL;
CREATE INDEX embedding_queue_late ON {schema}.embedding_queue (model, due_at) WHERE due_at IS NOT NULL;

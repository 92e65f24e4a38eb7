CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

CREATE TABLE {schema}.spaces (
    agent_id text PRIMARY KEY,
    made_at  timestamptz NOT NULL DEFAULT now()
);

-- Which model made the vectors. One is active; re-embedding builds another beside it.
CREATE TABLE {schema}.embedding_models (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    dimensions int NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    state      text NOT NULL CHECK (state IN ('building', 'active', 'retired')),
    made_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX one_active_model ON {schema}.embedding_models (state) WHERE state = 'active';

-- Written in the transaction that writes the document. Rows are only appended and deleted, so that a
-- writer never waits for the worker that holds a row while it calls a provider.
CREATE TABLE {schema}.embedding_queue (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id    text NOT NULL,
    store       text NOT NULL CHECK (store IN ('session', 'knowledge')),
    document_id uuid NOT NULL,
    tries       int NOT NULL DEFAULT 0,
    due_at      timestamptz NOT NULL DEFAULT now(),
    last_error  text
);
CREATE INDEX embedding_queue_due ON {schema}.embedding_queue (due_at, id);

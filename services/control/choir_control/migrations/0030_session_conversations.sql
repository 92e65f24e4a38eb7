-- The further conversations of a session; `sessions.dm` is its home conversation (docs/decisions/0074).
CREATE TABLE {schema}.session_conversations (
    session_id text NOT NULL REFERENCES {schema}.sessions,
    dm         text NOT NULL,
    gateway    text NOT NULL,
    bound_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session_id, dm)
);
CREATE INDEX session_conversations_by_dm ON {schema}.session_conversations (dm);

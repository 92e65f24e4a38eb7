-- How each conversation uses memory: the mode in which its next session starts, and whether memory is read.
CREATE TABLE {schema}.conversation_memory (
    dm         text PRIMARY KEY,
    mode       text NOT NULL DEFAULT 'local' CHECK (mode IN ('local', 'synced', 'incognito')),
    recall     boolean,                                -- null: as agents.NAME.recall says
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- A session has one mode from its start to its end.
ALTER TABLE {schema}.sessions ADD COLUMN memory_mode text NOT NULL DEFAULT 'local'
    CHECK (memory_mode IN ('local', 'synced', 'incognito'));

-- What arrived through hooks and watched folders, and what became of it.

CREATE TABLE {schema}.trigger_deliveries (
    delivery_id text PRIMARY KEY,                  -- also the inbox_id of its message
    seq         bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    type        text NOT NULL CHECK (type IN ('hook', 'folder')),
    name        text NOT NULL,
    agent_id    text NOT NULL,
    dm          text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('message', 'job')),
    body        text NOT NULL,                     -- what the agent reads
    key         text NOT NULL,                     -- of the sender, or a digest of the content
    content_key text,                              -- a digest of the content, if it is unique
    size        bigint NOT NULL,
    state       text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done', 'failed')),
    detail      text NOT NULL DEFAULT '',
    received_at timestamptz NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz,
    UNIQUE (type, name, key),
    UNIQUE (type, name, content_key)
);
CREATE INDEX trigger_deliveries_open ON {schema}.trigger_deliveries (type, name, seq)
    WHERE state IN ('waiting', 'running');
CREATE INDEX trigger_deliveries_ended ON {schema}.trigger_deliveries (ended_at) WHERE ended_at IS NOT NULL;

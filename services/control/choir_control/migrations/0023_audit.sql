-- Signatures of events, by a key that is not in the database, and the heads of logs that people were told.

-- null: the event is from before the first key; an anchor covers it
ALTER TABLE {schema}.session_events ADD COLUMN signature bytea;
-- of the erased events, 36 bytes each in order of revision; zeros: none
ALTER TABLE {schema}.erased_logs ADD COLUMN signatures bytea;
ALTER TABLE {schema}.erased_logs ALTER COLUMN signatures SET STORAGE EXTERNAL; -- they do not compress

-- No reference to `sessions`: an anchor outlives them.
CREATE TABLE {schema}.audit_anchors (
    number    bigint PRIMARY KEY,
    at        timestamptz NOT NULL,
    root      text NOT NULL,
    signature bytea NOT NULL
);
CREATE TABLE {schema}.audit_anchor_heads (
    number     bigint NOT NULL REFERENCES {schema}.audit_anchors,
    session_id text NOT NULL,
    rev        bigint NOT NULL,
    hash       text NOT NULL,
    PRIMARY KEY (number, session_id)
);
CREATE INDEX audit_anchor_heads_by_session ON {schema}.audit_anchor_heads (session_id, rev);

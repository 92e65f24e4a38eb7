-- Work that takes longer than a request. What it says while it goes on is not kept; how it ended is.

CREATE TABLE {schema}.operations (
    operation_id text PRIMARY KEY,
    kind         text NOT NULL,
    subject      text NOT NULL,
    status       text NOT NULL DEFAULT 'running'
                 CHECK (status IN ('running', 'succeeded', 'failed', 'interrupted')),
    step         text NOT NULL DEFAULT '',
    error        text,
    error_code   text,
    result       json,
    began_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    CHECK ((status = 'running') = (ended_at IS NULL))
);
CREATE INDEX operations_by_age ON {schema}.operations (began_at DESC, operation_id DESC);

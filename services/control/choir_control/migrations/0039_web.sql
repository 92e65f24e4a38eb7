-- Sign-in of the web page (docs/decisions/0090), and the indexes of a conversation's history.
CREATE TABLE {schema}.web_links (
    digest     bytea PRIMARY KEY,               -- SHA-256 of the token in the link
    person     text,                            -- NULL: the operator
    expires_at timestamptz NOT NULL
);
CREATE TABLE {schema}.web_sessions (
    web_session_id text PRIMARY KEY,
    digest         bytea NOT NULL,              -- SHA-256 of the token in the cookie
    person         text,                        -- NULL: the operator
    user_agent     text NOT NULL,
    created_at     timestamptz NOT NULL,
    last_used_at   timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,        -- however often it is used
    UNIQUE (digest)
);
CREATE INDEX inbox_by_dm ON {schema}.inbox (dm, received_at, seq);
CREATE INDEX outbox_by_time ON {schema}.outbox (dm, at, outbox_id);

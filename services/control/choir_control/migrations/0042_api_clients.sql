-- Programs with a token for the OpenAI-compatible API (docs/decisions/0095).
CREATE TABLE {schema}.api_clients (
    name         text PRIMARY KEY,
    digest       bytea NOT NULL,                -- SHA-256 of the token
    person       text,                          -- NULL: the operator of a configuration without people
    agents       text[] NOT NULL,               -- empty: all
    scopes       text[] NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz                    -- the row stays, so that nobody else gets its conversations
);
ALTER TABLE {schema}.config_versions DROP CONSTRAINT config_versions_reason_check;
ALTER TABLE {schema}.config_versions ADD CONSTRAINT config_versions_reason_check
    CHECK (reason IN ('start', 'config', 'secrets', 'pairing', 'clients'));

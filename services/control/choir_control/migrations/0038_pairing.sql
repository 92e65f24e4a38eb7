-- Users who asked for a conversation, and those who were given one (docs/decisions/0086).
CREATE TABLE {schema}.pairing_requests (
    gateway    text NOT NULL,
    user_id    text NOT NULL,
    dm         text NOT NULL,                   -- the conversation that they would get
    user_name  text NOT NULL,                   -- chosen by the user
    code       text NOT NULL,                   -- admins see it; it allows nothing without them
    denied     boolean NOT NULL DEFAULT false,  -- the row stays until it expires, so that there is no new code
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (gateway, user_id)
);
CREATE TABLE {schema}.paired_users (
    dm           text PRIMARY KEY,
    gateway      text NOT NULL,
    user_id      text NOT NULL,
    channel_type text NOT NULL,
    agent_id     text NOT NULL,
    role         text NOT NULL CHECK (role IN ('member', 'guest')),
    user_name    text NOT NULL,
    approved_by  text NOT NULL,
    approved_at  timestamptz NOT NULL,
    UNIQUE (gateway, user_id)
);
ALTER TABLE {schema}.config_versions DROP CONSTRAINT config_versions_reason_check;
ALTER TABLE {schema}.config_versions
    ADD CONSTRAINT config_versions_reason_check CHECK (reason IN ('start', 'config', 'secrets', 'pairing'));

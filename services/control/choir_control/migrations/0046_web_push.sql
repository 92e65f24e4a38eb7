-- Notifications of browsers by Web Push (docs/decisions/0107).
CREATE TABLE {schema}.web_push_subscriptions (
    web_session_id text PRIMARY KEY REFERENCES {schema}.web_sessions ON DELETE CASCADE,
    endpoint       text NOT NULL,               -- address at the push service of the browser's vendor
    p256dh         bytea NOT NULL,              -- public key of the browser
    auth           bytea NOT NULL,              -- secret of the browser for its messages
    UNIQUE (endpoint)
);
CREATE TABLE {schema}.web_push_key (
    only_row    boolean PRIMARY KEY CHECK (only_row),
    private_key bytea NOT NULL                  -- made once: a new one ends all subscriptions
);

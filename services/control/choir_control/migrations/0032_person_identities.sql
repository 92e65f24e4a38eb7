-- Identities that `/link` or an operator has given to a person of config.json (docs/decisions/0082).
CREATE TABLE {schema}.person_identities (
    gateway   text NOT NULL,
    user_id   text NOT NULL,
    person    text NOT NULL,
    linked_by text NOT NULL,
    linked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (gateway, user_id)
);

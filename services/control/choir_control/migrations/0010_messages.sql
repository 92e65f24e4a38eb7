-- Files, buttons, edits and cards of conversations (spec 19.5, 19.6).

ALTER TABLE {schema}.outbox
    ADD COLUMN files      json,                        -- what goes with the words: [SpooledFile]
    ADD COLUMN buttons    json,                        -- [Button]
    ADD COLUMN edits      bigint REFERENCES {schema}.outbox, -- whose place the words take
    ADD COLUMN message_id text;                        -- the channel's own id of it, once it is delivered
CREATE INDEX outbox_by_message ON {schema}.outbox (dm, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX outbox_with_files ON {schema}.outbox (outbox_id) WHERE files IS NOT NULL;

ALTER TABLE {schema}.inbox
    ADD COLUMN attachments json,                       -- [Attachment], as the channel names them
    ADD COLUMN fetched_at  timestamptz,                -- they lie in the workspace; the signal says where
    ADD COLUMN message_id  text,
    ADD COLUMN edits       text,
    ADD COLUMN reply_to    text;
CREATE INDEX inbox_by_message ON {schema}.inbox (dm, message_id, seq) WHERE message_id IS NOT NULL;

-- what the agent finds in its workspace, until some time after it has answered
CREATE TABLE {schema}.received_files (
    inbox_id  text NOT NULL REFERENCES {schema}.inbox,
    workspace text NOT NULL,
    path      text NOT NULL,
    PRIMARY KEY (inbox_id, path)
);

-- `say`, with more than words; returns the outbox id
CREATE FUNCTION {schema}.say_with(in_dm text, over_gateway text, words text, pressed json, instead_of bigint)
RETURNS bigint LANGUAGE plpgsql AS $say$
DECLARE
    said bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('words in ' || in_dm, 0));
    PERFORM FROM {schema}.sessions
        WHERE dm = in_dm AND status IN ('starting', 'active', 'stopping', 'crashed') FOR NO KEY UPDATE;
    INSERT INTO {schema}.outbox (dm, gateway, agent_id, kind, text, at, buttons, edits)
        VALUES (in_dm, over_gateway, 'choir', 'notice', words, clock_timestamp(), pressed, instead_of)
        RETURNING outbox_id INTO said;
    RETURN said;
END
$say$;

-- the message that asks, so that it can be edited, and named by a reply
ALTER TABLE {schema}.pending_approvals ADD COLUMN notice_id bigint REFERENCES {schema}.outbox;
CREATE INDEX pending_approvals_by_notice ON {schema}.pending_approvals (notice_id)
    WHERE notice_id IS NOT NULL;

-- a button decides once, for one user of one conversation, on exactly what was shown
CREATE TABLE {schema}.approval_nonces (
    nonce_sha256 bytea PRIMARY KEY,
    approval_id  text NOT NULL REFERENCES {schema}.pending_approvals,
    dm           text NOT NULL,
    user_id      text NOT NULL,
    digest       text NOT NULL,
    used_at      timestamptz,
    callback_id  text                                  -- the press that used it: a repetition is told the same
);

-- the message that shows a card, so that a gateway which was restarted edits the same
CREATE TABLE {schema}.channel_messages (
    dm         text NOT NULL,
    card_id    text NOT NULL,
    message_id text NOT NULL,
    kept_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (dm, card_id)
);

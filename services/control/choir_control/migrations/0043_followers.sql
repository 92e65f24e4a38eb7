-- Conversations that get copies of what is said in the same person's other ones (docs/people.md).
CREATE TABLE {schema}.conversation_followers (
    dm    text PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- A copy has the revision of the reply, and is erased with its conversation.
ALTER TABLE {schema}.outbox ADD COLUMN copied_from text;
CREATE INDEX outbox_copies ON {schema}.outbox (copied_from) WHERE copied_from IS NOT NULL;
ALTER TABLE {schema}.outbox DROP CONSTRAINT outbox_session_id_rev_key;
ALTER TABLE {schema}.outbox ADD UNIQUE (session_id, rev, dm);

-- Several conversations of one session (docs/decisions/0074). A conversation that has left a session may still
-- get the answers to what was asked there.
ALTER TABLE {schema}.session_conversations ADD COLUMN unbound_at timestamptz;

-- The rows of a session end with it.
ALTER TABLE {schema}.session_conversations DROP CONSTRAINT session_conversations_session_id_fkey,
    ADD CONSTRAINT session_conversations_session_id_fkey
        FOREIGN KEY (session_id) REFERENCES {schema}.sessions ON DELETE CASCADE;

-- The conversation that was asked; null: the home conversation of the session.
ALTER TABLE {schema}.pending_approvals
    ADD COLUMN dm      text,
    ADD COLUMN gateway text,
    ADD CHECK ((dm IS NULL) = (gateway IS NULL));

-- The conversation that gave the yes, whose calls it covers; null: the home conversation.
ALTER TABLE {schema}.grants ADD COLUMN dm text;

-- As in 0008 and 0010; the session may also serve the conversation beside its home conversation.
CREATE OR REPLACE FUNCTION {schema}.say(in_dm text, over_gateway text, words text)
RETURNS text LANGUAGE plpgsql AS $say$
BEGIN
    PERFORM {schema}.say_with(in_dm, over_gateway, words, NULL, NULL);
    RETURN in_dm;
END
$say$;

CREATE OR REPLACE FUNCTION {schema}.say_with(in_dm text, over_gateway text, words text, pressed json,
                                             instead_of bigint)
RETURNS bigint LANGUAGE plpgsql AS $say$
DECLARE
    said bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('words in ' || in_dm, 0));
    PERFORM FROM {schema}.sessions
        WHERE status IN ('starting', 'active', 'stopping', 'crashed')
          AND (dm = in_dm OR session_id IN (
              SELECT c.session_id FROM {schema}.session_conversations AS c WHERE c.dm = in_dm))
        ORDER BY session_id FOR NO KEY UPDATE;
    INSERT INTO {schema}.outbox (dm, gateway, agent_id, kind, text, at, buttons, edits)
        VALUES (in_dm, over_gateway, 'choir', 'notice', words, clock_timestamp(), pressed, instead_of)
        RETURNING outbox_id INTO said;
    RETURN said;
END
$say$;

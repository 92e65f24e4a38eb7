-- Choir itself speaks in conversations: of requests and what became of them, of works begun there (spec 19.6, 19.7).

ALTER TABLE {schema}.outbox
    ALTER COLUMN session_id DROP NOT NULL,              -- null: no agent's words, but Choir's own
    ALTER COLUMN rev DROP NOT NULL,
    ADD CHECK ((session_id IS NULL) = (rev IS NULL));

-- who follows a conversation goes on after the newest number seen, so numbers must be seen in their order:
-- one word of Choir's at a time, and none beside the append of the session that holds the conversation
CREATE FUNCTION {schema}.say(in_dm text, over_gateway text, words text) RETURNS text LANGUAGE plpgsql AS $say$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('words in ' || in_dm, 0));
    PERFORM FROM {schema}.sessions
        WHERE dm = in_dm AND status IN ('starting', 'active', 'stopping', 'crashed') FOR NO KEY UPDATE;
    INSERT INTO {schema}.outbox (dm, gateway, agent_id, kind, text, at)
        VALUES (in_dm, over_gateway, 'choir', 'notice', words, clock_timestamp());
    RETURN in_dm;
END
$say$;

-- the conversation that began a work, and is told of its end
ALTER TABLE {schema}.operations
    ADD COLUMN dm      text,
    ADD COLUMN gateway text,
    ADD CHECK ((dm IS NULL) = (gateway IS NULL));

-- how long a human could have answered: counted while choird runs, by a clock that does not jump
ALTER TABLE {schema}.pending_approvals ADD COLUMN waited interval NOT NULL DEFAULT '0';
